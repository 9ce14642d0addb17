-- Keeps what was read of a row, unless a newer version of it is known: who read slowly puts nothing old back.
--
-- KEYS[1] hash: `version`; `body`, JSON, empty when there is no such row, missing when it was dropped by a write
-- ARGV[1] version that was read  ARGV[2] body  ARGV[3] life, ms
--
-- Answers the version that is there afterwards: ARGV[1] when it was kept, a larger one when not. O(1).
local there = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local version = tonumber(ARGV[1])
if there > version then
  return there
end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'body', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return version
