-- Takes a login code: the right one is gone at once, so of two callers with it one wins.
--
-- KEYS[1] hash, the code: `digest`, `tries` (left)
-- ARGV[1] digest of phone and code as the caller gave them
--
-- Answers 1: right, and used up · 0: wrong, one try fewer, burnt at none · -1: there is no code.
-- O(1), one key.

local digest = redis.call('HGET', KEYS[1], 'digest')
if not digest then
  return -1
end
if digest == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
if redis.call('HINCRBY', KEYS[1], 'tries', -1) <= 0 then
  redis.call('DEL', KEYS[1])
end
return 0
