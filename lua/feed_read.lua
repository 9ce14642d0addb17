-- Reads a part of an inbox, the newest first.
--
-- KEYS[1] hash: the inbox  KEYS[2] sorted set: its entries
-- ARGV[1] token  ARGV[2] what is read lies below it: `+` or `(` and the beginning of an entry  ARGV[3] how many at most
--
-- Answers {floor or empty, entries that are not below it}; nothing when the inbox was lost. O(log entries + answered).
if whole(KEYS[1], KEYS[2]) ~= ARGV[1] then
  return false
end
local floor = redis.call('HGET', KEYS[1], 'floor') or ''
return { floor, redis.call('ZRANGE', KEYS[2], ARGV[2], '[' .. (floor == '' and '0' or floor), 'BYLEX', 'REV', 'LIMIT', 0, ARGV[3]) }
