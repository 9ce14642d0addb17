-- Tells a living session its user's new role.
--
-- KEYS[1] hash, the session: `user`, `role`, `created` and `seen` in ms
-- ARGV[1] role
--
-- Answers 1: told · 0: there is no such session, and none was made.
-- O(1), one key.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'role', ARGV[1])
return 1
