-- Stores a new login code, unless a limit forbids sending one now.
--
-- KEYS[1] hash, the code: `digest`, `tries` (left); lives ARGV[3] ms
-- KEYS[2] zset, codes sent to this phone: unique member -> time in ms; lives a day
-- KEYS[3] zset, codes sent for this address: unique member -> time in ms; lives an hour
-- ARGV[1] digest of phone and code
-- ARGV[2] member that no other call uses, so that two codes of one millisecond count as two
-- ARGV[3] life of the code, ms
-- ARGV[4] wrong tries that burn it
-- ARGV[5] least time between two codes for this phone, ms; 0 for none
-- ARGV[6] codes for this phone in any hour
-- ARGV[7] codes for this phone in any day
-- ARGV[8] codes for this address in any hour
--
-- Answers 0 when stored; else the ms after which every limit allows one, and nothing was changed: neither the
-- code that is still valid, nor any count.
-- All limits are looked at before the first write. Time is this server's, so nodes with wrong clocks agree.
-- O(log n), n codes of the day. The three keys share the slot of {login}.

local HOUR = 3600 * 1000
local DAY = 24 * HOUR

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function ms(number)
  return string.format('%.0f', number)
end

-- How long until fewer than `limit` codes lie within the last `window` ms.
local function wait(key, window, limit)
  if window <= 0 then
    return 0
  end
  if redis.call('ZCOUNT', key, '(' .. ms(now - window), '+inf') < limit then
    return 0
  end
  local leaves_next = redis.call('ZREVRANGE', key, limit - 1, limit - 1, 'WITHSCORES')
  return leaves_next[2] + window - now
end

local longest = math.max(
  wait(KEYS[2], tonumber(ARGV[5]), 1),
  wait(KEYS[2], HOUR, tonumber(ARGV[6])),
  wait(KEYS[2], DAY, tonumber(ARGV[7])),
  wait(KEYS[3], HOUR, tonumber(ARGV[8]))
)
if longest > 0 then
  return longest
end

local function count(key, window)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', ms(now - window))
  redis.call('ZADD', key, ms(now), ARGV[2])
  redis.call('PEXPIRE', key, window)
end
count(KEYS[2], DAY)
count(KEYS[3], HOUR)

redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'digest', ARGV[1], 'tries', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 0
