-- Keeps what was read of a row, unless a newer version of it is known: who read slowly puts nothing old back. Nor
-- while somebody writes the row.
--
-- KEYS[1] hash: `version`; `body`, JSON, empty when there is no such row, missing when it was dropped by a write;
--         `w:<writer>` as cache_mark leaves them
-- ARGV[1] version that was read  ARGV[2] body  ARGV[3] life, ms
--
-- Answers the newest version known: larger than ARGV[1] when somebody was quicker. O(1), and the writers.
local there = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local version = tonumber(ARGV[1])
if there > version then
  return there
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'w:' then
    if now < tonumber(redis.call('HGET', KEYS[1], field)) then
      return version
    end
    redis.call('HDEL', KEYS[1], field)
  end
end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'body', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return version
