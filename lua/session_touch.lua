-- Reads a session and lets it live on.
--
-- KEYS[1] hash, the session: `user`, `role`, `created` and `seen` in ms
-- ARGV[1] life of a session that is not seen, ms
-- ARGV[2] life of a session in all, ms
-- ARGV[3] least time between two writes, ms, so that reading stays cheap with the log on
--
-- Answers {user, role}, or nil when there is no such session or its time is up.
-- O(1), one key.

local session = redis.call('HMGET', KEYS[1], 'user', 'role', 'created', 'seen')
if not session[1] then
  return false
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local left = session[3] + ARGV[2] - now
if left <= 0 then
  redis.call('DEL', KEYS[1])
  return false
end
if now - session[4] >= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'seen', string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.min(tonumber(ARGV[1]), left)))
end
return {session[1], session[2]}
