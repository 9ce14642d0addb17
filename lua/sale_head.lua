-- What reserve, forget, adjust and inspect ask first: is the sale there, and are its books right? Not a script of its
-- own: its text stands before theirs.
-- KEYS[1] meta  KEYS[2] stock  KEYS[3] buyers  KEYS[4] orders  KEYS[5] outbox  KEYS[6] attempts  KEYS[7] dead
-- KEYS[8] recovery; all in one slot.
-- ARGV: those of the script that follows.
-- head() answers the sale, or nil and NOT_READY (no meta, or a recovery is on) or DAMAGED (keys of another kind,
-- another epoch, or books that do not add up). O(1).
local function head()
  if redis.call('EXISTS', KEYS[8]) == 1 or redis.call('EXISTS', KEYS[1]) == 0 then
    return nil, 'NOT_READY'
  end
  local kinds = { 'hash', 'string', 'hash', 'hash', 'hash', 'hash', 'set' }
  for i, kind in ipairs(kinds) do
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= kind and found ~= 'none' then
      return nil, 'DAMAGED'
    end
  end
  local names = { 'begin_ms', 'end_ms', 'total', 'limit', 'max_attempts', 'waiting', 'taken', 'version' }
  local sale = {}
  for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
    sale[names[i]] = tonumber(value or '')
    if not sale[names[i]] then
      return nil, 'DAMAGED'
    end
  end
  local texts = redis.call('HMGET', KEYS[1], 'epoch', 'price', 'currency', 'paused')
  sale.epoch, sale.price, sale.currency, sale.paused = texts[1], texts[2], texts[3], texts[4]
  sale.stock = tonumber(redis.call('GET', KEYS[2]) or '')
  sale.held = redis.call('HLEN', KEYS[4])
  local right = sale.epoch and sale.price and sale.currency and sale.paused and sale.stock
    and redis.call('HGET', KEYS[5], 'epoch') == sale.epoch
    and redis.call('HGET', KEYS[6], 'epoch') == sale.epoch
    and redis.call('HLEN', KEYS[3]) == sale.held
    and sale.held == sale.total - sale.stock
  if not right then
    return nil, 'DAMAGED'
  end
  return sale
end
