-- Asks where an order is, and bars its id when it is nowhere, so that a late reserve cannot place it.
-- KEYS: as in sale_head, which stands before this text.
-- ARGV[1] order id
-- Answers: {NOT_READY} {DAMAGED} {QUEUED} the order holds a unit  {DEAD, epoch}. Complexity: O(1).
local sale, trouble = head()
if not sale then
  return { trouble }
end
if redis.call('HEXISTS', KEYS[4], ARGV[1]) == 1 then
  return { 'QUEUED' }
end
redis.call('SADD', KEYS[7], ARGV[1])
return { 'DEAD', sale.epoch }
