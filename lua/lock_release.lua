-- Gives a lock back once; whoever waits is told when nothing of it is left. For its owner only.
--
-- KEYS[1] hash, the lock
-- ARGV[1] owner  ARGV[2] channel to tell it on  ARGV[3] what to tell
--
-- Answers 1, or 0 when the lock is not the owner's any more. O(1) and the listeners.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
if redis.call('HINCRBY', KEYS[1], 'times', -1) < 1 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[2], ARGV[3])
end
return 1
