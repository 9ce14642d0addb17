-- The load of cached reads, for wrk: the query of a shop, 11 fields, each request another shop and another user.
-- Told by the environment: BENCH_SHOPS and BENCH_TOKENS (files, one a line). Prints one line of JSON at the end.

local query = 'query($id: ID!) { shop(id: $id) { id name area address score soldCount commentCount images openHours location { latitude longitude } } }'
local requests, at = {}, 0

local function lines(name)
  local found = {}
  for line in io.lines(os.getenv(name)) do found[#found + 1] = line end
  return found
end

function init()
  local tokens = lines('BENCH_TOKENS')
  for number, shop in ipairs(lines('BENCH_SHOPS')) do
    local headers = { ['content-type'] = 'application/json', authorization = 'Bearer ' .. tokens[number % #tokens + 1] }
    local body = '{"query":"' .. query .. '","variables":{"id":"' .. shop .. '"}}'
    requests[number] = wrk.format('POST', '/graphql', headers, body)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('RESULT {"seconds":%.4f,"requests":%d,"p50":%.3f,"p99":%.3f,"errors":%d}\n',
    summary.duration / 1e6, summary.requests, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
