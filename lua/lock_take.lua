-- Takes a lock, or takes it once more for the owner who has it.
--
-- KEYS[1] hash: `owner`, `times`; lives for the lease
-- ARGV[1] owner, unique among all who ever ask  ARGV[2] lease, ms
--
-- Answers 0 when it is the owner's; else the ms after which the holder's lease runs out. O(1).
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then
  return math.max(1, redis.call('PTTL', KEYS[1]))
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'times', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
