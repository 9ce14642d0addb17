-- Starts a lock's lease anew, for its owner only.
--
-- KEYS[1] hash, the lock
-- ARGV[1] owner  ARGV[2] lease, ms
--
-- Answers 1, or 0 when the lock is not the owner's any more. O(1).
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
