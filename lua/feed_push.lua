-- Puts one note into the inboxes of some followers. Those who have no inbox are passed by: theirs is built when they
-- look. Pushing again changes nothing.
--
-- KEYS[1, 3, 5…] hash: an inbox  KEYS[2, 4, 6…] sorted set: its entries
-- ARGV[1] entry  ARGV[2] entries that an inbox holds  ARGV[3] only those whose owner was seen after it, ms; -1 for all
--
-- Answers how many took it. O(inboxes · log entries).
local taken, cap, seen_after = 0, tonumber(ARGV[2]), tonumber(ARGV[3])
for i = 1, #KEYS, 2 do
  if whole(KEYS[i], KEYS[i + 1]) and tonumber(redis.call('HGET', KEYS[i], 'seen')) > seen_after then
    taken = taken + redis.call('ZADD', KEYS[i + 1], 0, ARGV[1])
    trim(KEYS[i], KEYS[i + 1], cap)
  end
end
return taken
