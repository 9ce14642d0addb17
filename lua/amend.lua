-- Brings what the database says of a sale into Redis, absolutely. Never makes a sale.
-- KEYS[1] meta
-- ARGV[1] epoch  ARGV[2] paused, 0 or 1  ARGV[3] waiting, units  ARGV[4] end, ms; an empty one stays as it is
-- Answers: NOT_READY no meta  OTHER_EPOCH  DONE. Complexity: O(1).
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then
  return 'NOT_READY'
end
if epoch ~= ARGV[1] then
  return 'OTHER_EPOCH'
end
for i, name in ipairs({ 'paused', 'waiting', 'end_ms' }) do
  if ARGV[i + 1] ~= '' then
    redis.call('HSET', KEYS[1], name, ARGV[i + 1])
  end
end
return 'DONE'
