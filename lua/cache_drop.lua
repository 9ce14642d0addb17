-- Drops what is kept of a row that was written, leaves its new version so that nothing older is put back, and tells
-- every node.
--
-- KEYS[1] hash: `version`; `body`, JSON, empty when there is no such row, missing when it was dropped by a write
-- ARGV[1] version after the write, 0 when it is not known  ARGV[2] how long the version is remembered, ms
-- ARGV[3] channel  ARGV[4] what to say there
--
-- Answers the version that is there afterwards. O(1), and the listeners.
local there = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local version = tonumber(ARGV[1])
local body = redis.call('HGET', KEYS[1], 'body')
redis.call('PUBLISH', ARGV[3], ARGV[4])
-- Somebody has read the row since the write: what is kept is the new one already.
local read_since = version > 0 and (there > version or (there == version and body and body ~= ''))
if read_since then
  return there
end
redis.call('HDEL', KEYS[1], 'body')
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', math.max(there, version)))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return math.max(there, version)
