-- Reads the state of a sale in one step, whatever it is in. Goes by EVAL, for it must work when Redis has lost its
-- scripts. Writes nothing.
-- KEYS: as in sale_head, which stands before this text: what buyers are told is damaged must look so here too, or
-- nobody would mend it.
-- ARGV: none
-- Answers: {epoch, total, version, paused, waiting, begin ms, end ms, taken, stock, recovery there, buyers, orders,
--   outbox, attempts, dead, epoch in outbox, epoch in attempts, keys of another kind, damaged}; what is absent or no
--   whole number is nil.
-- Complexity: O(1).
local _, trouble = head()
local damaged = trouble == 'DAMAGED' and 1 or 0
local kinds = { 'hash', 'string', 'hash', 'hash', 'hash', 'hash', 'set', 'string' }
for i, kind in ipairs(kinds) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= kind and found ~= 'none' then
    return { false, false, false, false, false, false, false, false, false, 0, 0, 0, 0, 0, 0, false, false, 1, damaged }
  end
end
local function whole(value)
  return value and #value <= 18 and string.match(value, '^%-?%d+$') or false
end
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'total', 'version', 'paused', 'waiting', 'begin_ms', 'end_ms', 'taken')
for i = 1, 8 do
  seen[i] = whole(seen[i])
end
seen[9] = whole(redis.call('GET', KEYS[2]))
seen[10] = redis.call('EXISTS', KEYS[8])
seen[11] = redis.call('HLEN', KEYS[3])
seen[12] = redis.call('HLEN', KEYS[4])
seen[13] = redis.call('HLEN', KEYS[5])
seen[14] = redis.call('HLEN', KEYS[6])
seen[15] = redis.call('SCARD', KEYS[7])
seen[16] = whole(redis.call('HGET', KEYS[5], 'epoch'))
seen[17] = whole(redis.call('HGET', KEYS[6], 'epoch'))
seen[18] = 0
seen[19] = damaged
return seen
