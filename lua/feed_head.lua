-- Stands before the scripts of inboxes. An inbox is two keys, both of them there or none of any use:
-- KEYS: a hash, with `token`, a name that no other inbox ever had; `built`, once it holds what was there before it;
--   `floor`, the entry down to which nothing is missing, none when nothing is missing at all; `seq`, the change of
--   whom its owner follows up to which it holds their notes; `seen`, ms, when its owner last read; `gap`, ms, since
--   when pushes have passed it by
--   a sorted set, all of score 0 so that bytes give the order: `!token`, and an entry for each note, the oldest first
-- ARGV: entries are hexadecimal: time, note and author, each of fixed length.

-- The inbox's token, false when a part of it was lost.
local function whole(state, notes)
  local token = redis.call('HGET', state, 'token')
  return token and redis.call('ZSCORE', notes, '!' .. token) and token
end

local function raise_floor(state, entry)
  local floor = redis.call('HGET', state, 'floor')
  if not floor or floor < entry then
    redis.call('HSET', state, 'floor', entry)
  end
end

-- Drops the oldest entries above a number of them.
local function trim(state, notes, cap)
  local over = redis.call('ZCARD', notes) - 1 - cap
  if over > 0 then
    redis.call('ZREMRANGEBYRANK', notes, 1, over)
    raise_floor(state, redis.call('ZRANGE', notes, 1, 1)[1])
  end
end

