-- The load of the benchmark, for wrk: each request is another user's click, each user clicks once.
-- Told by the environment: BENCH_TOKENS (a file, one token a line), BENCH_FROM (the first line to use, from 1),
-- BENCH_COUNT (how many), BENCH_VOUCHER (the voucher's ID). Prints one line of JSON at the end.

local query = [[mutation($v: ID!, $r: String!) { seckillVoucher(input: { voucherId: $v, clientRequestId: $r }) { result { __typename ... on SeckillAccepted { order { id } } } } }]]
local voucher = os.getenv('BENCH_VOUCHER')
local from, count = tonumber(os.getenv('BENCH_FROM')), tonumber(os.getenv('BENCH_COUNT'))
local tokens, sent, stopped = {}, 0, false

function init()
  local at = 0
  for line in io.lines(os.getenv('BENCH_TOKENS')) do
    at = at + 1
    if at >= from and #tokens < count then tokens[#tokens + 1] = line end
  end
end

-- wrk sleeps through its time even when nobody works any more; an interrupt ends it at once, with its summary. One
-- alone is sometimes taken by the thread that does not sleep. (os.execute would ignore it while it waits.)
local function stop()
  if stopped then return end
  stopped = true
  wrk.thread:stop()
  local status = io.open('/proc/self/stat')
  local interrupt = 'kill -INT ' .. status:read('*n')
  status:close()
  io.popen('(for again in 1 2 3 4 5; do ' .. interrupt .. '; sleep 0.01; done) > /dev/null 2>&1 &'):close()
end

function request()
  sent = sent + 1
  local token = tokens[sent]
  if not token then
    stop()
    token = tokens[#tokens]
  end
  local body = '{"query":"' .. query .. '","variables":{"v":"' .. voucher .. '","r":"bench-' .. sent .. '"}}'
  local headers = { ['content-type'] = 'application/json', authorization = 'Bearer ' .. token }
  return wrk.format('POST', '/graphql', headers, body)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('RESULT {"seconds":%.4f,"requests":%d,"p50":%.3f,"p99":%.3f,"errors":%d}\n',
    summary.duration / 1e6, summary.requests, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
