-- Counts a call against a limit, if it is below it. Sliding: in no window of this length are there more calls than
-- the limit, wherever it begins. A refused call is not counted, so it does not prolong the wait.
--
-- KEYS[1] zset: unique member -> time in ms; lives for one window after the last call that counted
-- ARGV[1] window, ms  ARGV[2] limit, calls  ARGV[3] member that no other call uses
--
-- Answers 0 when the call counts; else the ms after which one will. Time is this server's. O(log n + expired).
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
if redis.call('ZCARD', KEYS[1]) < limit then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return 0
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return math.max(1, tonumber(oldest[2]) + window - now)
