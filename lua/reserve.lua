-- Takes units of one voucher for a batch of buyers, each at most once. Reads and decides everything first and
-- writes last: an error half-way would not be rolled back.
-- KEYS: as in sale_head, which stands before this text.
-- ARGV[1] voucher id  ARGV[2] number of buyers, then five for each buyer:
--   order id, user id, request id, trace id, 1 for a waiter who was called or 0
-- Answers for the batch: {NOT_READY} {DAMAGED} {PAUSED} {NOT_STARTED, begin ms} {ENDED, end ms}, or
-- {BUYERS, answer, …} with one answer for each buyer, in their order:
--   {OK, order id, slot, reserved at ms, epoch}  also when this very order is there already
--   {ALREADY, order id, 1}  this request got that order before, even if it was closed since
--   {ALREADY, order id, 0}  all units this user may have are taken, that order is one
--   {ID_TAKEN} the order id is another user's  {DEAD} the order id was said to be nowhere
--   {NO_ATTEMPTS}  {SOLD_OUT, epoch, taken}
-- Complexity: O(buyers × limit + attempts of these buyers).
local sale, trouble = head()
if not sale then
  return { trouble }
end
if sale.paused == '1' then
  return { 'PAUSED' }
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now < sale.begin_ms then
  return { 'NOT_STARTED', string.format('%d', sale.begin_ms) }
end
if now >= sale.end_ms then
  return { 'ENDED', string.format('%d', sale.end_ms) }
end
now = string.format('%d', now)

-- What earlier buyers of this batch did, so that later ones see it.
local bought, placed, attempts_of = {}, {}, {}
local stock, taken = sale.stock, sale.taken
local buyers, orders, outbox, attempts = {}, {}, {}, {}

local function list_of(user)
  return attempts_of[user] or redis.call('HGET', KEYS[6], user) or ''
end

-- One buyer's answer; takes the unit in the local copies.
local function take(order, user, request, trace, waiter)
  local owner = placed[order] or redis.call('HGET', KEYS[4], order)
  if owner and string.match(owner, '^(%d+):') ~= user then
    return { 'ID_TAKEN' }
  end
  local list, tries, same = list_of(user), 0, nil
  for id, slot, at, req in string.gmatch(list, '([^,;]+),([^,;]+),([^,;]+),([^,;]*)') do
    if id == order then
      return { 'OK', order, slot, at, sale.epoch }
    end
    if req == request then
      same = id
    end
    tries = tries + 1
  end
  if owner then
    -- His, but the attempt is lost: placed again it would take a second unit under one id.
    return { 'ALREADY', order, '0' }
  end
  if redis.call('SISMEMBER', KEYS[7], order) == 1 then
    return { 'DEAD' }
  end
  if same then
    return { 'ALREADY', same, '1' }
  end
  local free, last
  for slot = 1, sale.limit do
    local unit = user .. ':' .. slot
    local holder = bought[unit] or redis.call('HGET', KEYS[3], unit)
    if not holder then
      free = unit
      break
    end
    last = holder
  end
  if not free then
    return { 'ALREADY', last, '0' }
  end
  if tries >= sale.max_attempts then
    return { 'NO_ATTEMPTS' }
  end
  if stock < 1 or (stock - sale.waiting < 1 and waiter ~= '1') then
    return { 'SOLD_OUT', sale.epoch, string.format('%d', taken) }
  end
  local slot = string.match(free, ':(%d+)$')
  stock, taken = stock - 1, taken + 1
  bought[free], placed[order] = order, free
  local entry = order .. ',' .. slot .. ',' .. now .. ',' .. request
  attempts_of[user] = list == '' and entry or (list .. ';' .. entry)
  buyers[#buyers + 1], buyers[#buyers + 2] = free, order
  orders[#orders + 1], orders[#orders + 2] = order, free
  outbox[#outbox + 1] = order
  outbox[#outbox + 1] = '{"v":1,"order_id":"' .. order .. '","user_id":"' .. user .. '","voucher_id":"' .. ARGV[1]
    .. '","slot":' .. slot .. ',"price_minor":"' .. sale.price .. '","currency":"' .. sale.currency
    .. '","reserved_at":"' .. now .. '","epoch":"' .. sale.epoch .. '","request_id":"' .. request
    .. '","trace_id":"' .. trace .. '"}'
  return { 'OK', order, slot, now, sale.epoch }
end

local answers = { 'BUYERS' }
for i = 0, tonumber(ARGV[2]) - 1 do
  local at = 3 + i * 5
  answers[#answers + 1] = take(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
end
for user, list in pairs(attempts_of) do
  attempts[#attempts + 1], attempts[#attempts + 2] = user, list
end
if #orders > 0 then
  redis.call('HSET', KEYS[5], unpack(outbox))
  redis.call('HSET', KEYS[6], unpack(attempts))
  redis.call('HSET', KEYS[3], unpack(buyers))
  redis.call('HSET', KEYS[4], unpack(orders))
  redis.call('SET', KEYS[2], string.format('%d', stock))
  redis.call('HSET', KEYS[1], 'taken', string.format('%d', taken))
end
return answers
