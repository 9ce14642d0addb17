-- Drops what is kept of a row that was written, leaves its new version so that nothing older is put back, and tells
-- every node. A kind whose rows have no versions gets its next one here: later than every one before, by Redis' clock.
--
-- KEYS[1] hash: `version`; `body`, JSON, empty when there is no such row, missing when it was dropped by a write;
--         `w:<writer>` as cache_mark leaves them
-- ARGV[1] version after the write, 0 when it is not known, `next` for a kind without versions
-- ARGV[2] how long the version is remembered, ms  ARGV[3] channel  ARGV[4] the row's name there, before `:version`
-- ARGV[5...] the writers whose marks this takes back; again, or without a mark, that is nothing
--
-- Answers the version that is there afterwards. O(1) a writer, and the listeners.
local there = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local version = tonumber(ARGV[1])
if ARGV[1] == 'next' then
  local time = redis.call('TIME')
  version = math.max(there + 1, time[1] * 1000 + math.floor(time[2] / 1000))
end
for at = 5, #ARGV do
  redis.call('HDEL', KEYS[1], 'w:' .. ARGV[at])
end
local body = redis.call('HGET', KEYS[1], 'body')
redis.call('PUBLISH', ARGV[3], ARGV[4] .. ':' .. string.format('%.0f', version))
-- Somebody has read the row since the write: what is kept is the new one already.
local read_since = version > 0 and (there > version or (there == version and body and body ~= ''))
if read_since then
  return there
end
redis.call('HDEL', KEYS[1], 'body')
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', math.max(there, version)))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return math.max(there, version)
