-- Sets the total of a sale, once for each version.
-- KEYS: as in sale_head, which stands before this text.
-- ARGV[1] total, units  ARGV[2] version
-- Answers: {NOT_READY} {DAMAGED} {OLDER, version} a newer one was here  {BELOW, units held} nothing changed
--   {DONE, epoch}  also when this version was here before. Complexity: O(1).
local sale, trouble = head()
if not sale then
  return { trouble }
end
local total, version = tonumber(ARGV[1]), tonumber(ARGV[2])
if version < sale.version then
  return { 'OLDER', string.format('%d', sale.version) }
end
if version > sale.version then
  if total < sale.held then
    return { 'BELOW', string.format('%d', sale.held) }
  end
  redis.call('SET', KEYS[2], string.format('%d', total - sale.held))
  redis.call('HSET', KEYS[1], 'total', ARGV[1], 'version', ARGV[2])
end
return { 'DONE', sale.epoch }
