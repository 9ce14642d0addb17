-- Removes a login code that could not be delivered, unless a newer one has taken its place. The limits keep counting it.
--
-- KEYS[1] hash, the code: `digest`, `tries` (left)
-- ARGV[1] digest of the code that was not delivered
--
-- Answers 1: removed · 0: not there, or another one is.
-- O(1), one key.

if redis.call('HGET', KEYS[1], 'digest') ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
