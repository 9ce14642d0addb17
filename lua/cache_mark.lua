-- Notes that a row is about to be written, and drops what is kept of it. Until the last writer has told the outcome, or
-- has had time enough to, nothing that is read of the row is kept: a writer that dies between its commit and its word
-- leaves no old value behind.
--
-- KEYS[1] hash: `version`; `body`; `writers`, how many are at it; `until`, when they are given up, ms of Redis' clock
-- ARGV[1] how long a write may take, ms
--
-- Answers how many are at it. O(1).
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now >= tonumber(redis.call('HGET', KEYS[1], 'until') or '0') then
  redis.call('HDEL', KEYS[1], 'writers')
end
redis.call('HDEL', KEYS[1], 'body')
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + tonumber(ARGV[1])))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return redis.call('HINCRBY', KEYS[1], 'writers', 1)
