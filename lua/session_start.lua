-- Starts a session and lists it with its user's.
--
-- KEYS[1] hash, the session: `user`, `role`, `created` and `seen` in ms; lives ARGV[4] ms from the last time it was seen
-- KEYS[2] zset, the user's sessions: token hash -> the ms at which it ends at the latest; lives as long as a session can
-- ARGV[1] user id
-- ARGV[2] role
-- ARGV[3] token hash
-- ARGV[4] life of a session that is not seen, ms
-- ARGV[5] life of a session in all, ms
--
-- Answers 1.
-- O(log n), n sessions of the user. The two keys have two slots: sessions want one Redis, not a cluster.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_ms = string.format('%.0f', now)

redis.call('HSET', KEYS[1], 'user', ARGV[1], 'role', ARGV[2], 'created', now_ms, 'seen', now_ms)
redis.call('PEXPIRE', KEYS[1], ARGV[4])

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[5]), ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return 1
