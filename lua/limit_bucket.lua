-- Takes tokens from a bucket that refills steadily: a burst of its capacity at once, its rate in the long run. A
-- refused call takes nothing.
--
-- KEYS[1] hash: `tokens` in thousandths, `at` in ms; lives until it would be full again
-- ARGV[1] capacity, tokens  ARGV[2] tokens a second  ARGV[3] tokens wanted, at most the capacity
--
-- Answers 0 when they are taken; else the ms after which they will be there. Time is this server's. O(1).
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local capacity, rate, wanted = ARGV[1] * 1000, tonumber(ARGV[2]), ARGV[3] * 1000
local seen = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(seen[1] or '') or capacity, tonumber(seen[2] or '') or now
-- Tokens a second are thousandths a millisecond.
tokens = math.min(capacity, tokens + math.max(0, now - at) * rate)
if tokens < wanted then
  return math.ceil((wanted - tokens) / rate)
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.0f', tokens - wanted), 'at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((capacity - tokens + wanted) / rate) + 1000))
return 0
