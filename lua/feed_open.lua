-- Opens an inbox for its owner, who is seen by that; makes a new one when there is none, or it was lost in part.
--
-- KEYS[1] hash: the inbox  KEYS[2] sorted set: its entries
-- ARGV[1] now, ms  ARGV[2] a last look so long ago means that pushes may have passed by, ms  ARGV[3] how often a look is
-- written down, ms  ARGV[4] how long the inbox lives after a look, ms  ARGV[5] token, should a new one be made
--
-- Answers {token, 1 when built, seq or -1, gap or -1}. O(log entries).
local now, token = tonumber(ARGV[1]), whole(KEYS[1], KEYS[2])
if not token then
  token = ARGV[5]
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'token', token, 'seen', ARGV[1])
  redis.call('ZADD', KEYS[2], 0, '!' .. token)
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
local seen = redis.call('HGET', KEYS[1], 'seen')
local away = now - tonumber(seen)
if away >= tonumber(ARGV[2]) then
  redis.call('HSETNX', KEYS[1], 'gap', seen)
end
if away >= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'seen', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
return {
  token,
  redis.call('HEXISTS', KEYS[1], 'built'),
  tonumber(redis.call('HGET', KEYS[1], 'seq') or '-1'),
  tonumber(redis.call('HGET', KEYS[1], 'gap') or '-1'),
}
