-- Gives the unit of one order back. The order's presence in `orders` is the token: the second call finds none.
-- KEYS[1] meta  KEYS[2] stock  KEYS[3] buyers  KEYS[4] orders  KEYS[5] attempts  KEYS[6] dead  KEYS[7] recovery;
-- all in one slot.
-- ARGV[1] order id  ARGV[2] user id  ARGV[3] 1 when the order was rejected: then it does not count as an attempt,
-- and its id is never placed again
-- Answers: {NOT_READY} no meta, a recovery is on, or the keys are damaged so that the script would stop half-way:
--   ask again later, nothing was done
--   {DONE, 1 when a unit came back now, epoch}
-- Complexity: O(attempts of the user).
if redis.call('EXISTS', KEYS[7]) == 1 or redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'NOT_READY' }
end
for i, kind in ipairs({ 'hash', 'string', 'hash', 'hash', 'hash', 'set' }) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= kind and found ~= 'none' then
    return { 'NOT_READY' }
  end
end
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch or not tonumber(redis.call('GET', KEYS[2]) or '') then
  return { 'NOT_READY' }
end
local unit = redis.call('HGET', KEYS[4], ARGV[1])
local user = unit and string.match(unit, '^(%d+):') or ARGV[2]
local released = redis.call('HDEL', KEYS[4], ARGV[1])
if released == 1 then
  redis.call('INCR', KEYS[2])
  if redis.call('HGET', KEYS[3], unit) == ARGV[1] then
    redis.call('HDEL', KEYS[3], unit)
  end
end
if ARGV[3] == '1' then
  redis.call('SADD', KEYS[6], ARGV[1])
  local kept = {}
  for id, rest in string.gmatch(redis.call('HGET', KEYS[5], user) or '', '([^,;]+),([^;]*)') do
    if id ~= ARGV[1] then
      kept[#kept + 1] = id .. ',' .. rest
    end
  end
  if #kept == 0 then
    redis.call('HDEL', KEYS[5], user)
  else
    redis.call('HSET', KEYS[5], user, table.concat(kept, ';'))
  end
end
return { 'DONE', tostring(released), epoch }
