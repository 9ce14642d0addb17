-- Puts a recovered sale in place of whatever is there. Goes by EVAL, for it must work when Redis has lost its
-- scripts. All checks come before the first write.
-- KEYS[1] meta  KEYS[2] stock  KEYS[3] buyers  KEYS[4] orders  KEYS[5] outbox  KEYS[6] attempts  KEYS[7] recovery
-- KEYS[8] temporary buyers  KEYS[9] temporary orders  KEYS[10] temporary attempts  KEYS[11] dead; all in one slot
-- ARGV[1] token  ARGV[2] [3] [4] entries of the temporary keys  ARGV[5] total, units  ARGV[6] epoch
-- ARGV[7…] fields and values of meta
-- Answers: LOST another recovery is on, or none  INCOMPLETE a temporary key does not hold what it was told
--   OVERSOLD more orders than units  DONE. Complexity: O(entries that are replaced).
if redis.call('GET', KEYS[7]) ~= ARGV[1] then
  return 'LOST'
end
for i = 1, 3 do
  local source = KEYS[7 + i]
  local found = redis.call('TYPE', source).ok
  if found ~= 'none' and found ~= 'hash' then
    return 'INCOMPLETE'
  end
  if redis.call('HLEN', source) ~= tonumber(ARGV[1 + i]) then
    return 'INCOMPLETE'
  end
end
local stock = tonumber(ARGV[5]) - tonumber(ARGV[3])
if stock < 0 then
  return 'OVERSOLD'
end
for i, live in ipairs({ KEYS[3], KEYS[4], KEYS[6] }) do
  if ARGV[1 + i] == '0' then
    redis.call('DEL', live)
  else
    redis.call('RENAME', KEYS[7 + i], live)
    redis.call('PERSIST', live)
  end
end
-- The dead stay; but what is no set would keep the sale damaged for ever.
local dead = redis.call('TYPE', KEYS[11]).ok
if dead ~= 'set' and dead ~= 'none' then
  redis.call('DEL', KEYS[11])
end
redis.call('HSET', KEYS[6], 'epoch', ARGV[6])
redis.call('DEL', KEYS[5])
redis.call('HSET', KEYS[5], 'epoch', ARGV[6])
redis.call('SET', KEYS[2], string.format('%d', stock))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 7))
redis.call('DEL', KEYS[7])
return 'DONE'
