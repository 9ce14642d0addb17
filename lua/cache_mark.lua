-- Notes that a row is about to be written, and drops what is kept of it. Until each writer has told the outcome, or has
-- had time enough to, nothing that is read of the row is kept: a writer that dies between its commit and its word
-- leaves no old value behind.
--
-- KEYS[1] hash: `version`; `body`; `w:<writer>` for each that is at it: when it is given up, ms of Redis' clock
-- ARGV[1] how long a write may take, ms  ARGV[2] the writer, unique to this write
--
-- Answers until when the mark stands, ms of Redis' clock. The same again is a mark that stands longer. O(1).
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
redis.call('HDEL', KEYS[1], 'body')
redis.call('HSET', KEYS[1], 'w:' .. ARGV[2], string.format('%.0f', until_ms))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return until_ms
