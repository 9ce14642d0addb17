-- Puts entries that were read from the database into an inbox, and notes what they make up for.
--
-- KEYS[1] hash: the inbox  KEYS[2] sorted set: its entries
-- ARGV[1] token  ARGV[2] entries that an inbox holds  ARGV[3] entry down to which all was read, empty for all there is
-- ARGV[4] seq that was read, -1 for none  ARGV[5] gap that is filled, -1 for none  ARGV[6] 1 when all is there now
-- ARGV[7…] entries
--
-- Answers 1, or 0 when it is another inbox by now. O(entries · log entries).
if whole(KEYS[1], KEYS[2]) ~= ARGV[1] then
  return 0
end
for i = 7, #ARGV do
  redis.call('ZADD', KEYS[2], 0, ARGV[i])
end
if ARGV[3] ~= '' then
  raise_floor(KEYS[1], ARGV[3])
end
trim(KEYS[1], KEYS[2], tonumber(ARGV[2]))
local seq = tonumber(redis.call('HGET', KEYS[1], 'seq') or '-1')
if tonumber(ARGV[4]) > seq then
  redis.call('HSET', KEYS[1], 'seq', ARGV[4])
end
if redis.call('HGET', KEYS[1], 'gap') == ARGV[5] then
  redis.call('HDEL', KEYS[1], 'gap')
end
if ARGV[6] == '1' then
  redis.call('HSET', KEYS[1], 'built', '1')
end
return 1
