-- Journals a product before its alerts are sent, and removes it afterwards. The newest version wins.
-- KEYS[1] journal: product -> `<version> <since>\n<product>`   KEYS[2] recent versions
-- ARGV[1..2] deadline, product id   ARGV[3] version, milliseconds since 1970; empty means now
-- ARGV[4] product; empty to remove that version   ARGV[5] milliseconds to remember versions
-- Returns {version, since}; {} if removed or superseded. `since` is 0, unless the journal had another state of the
--   product, whose alerts may still be sent. Then it is the first version with the new state.
-- Errors: EXPIRED.

-- @include deadline

local there = redis.call('HGET', KEYS[1], ARGV[2])
if ARGV[4] == '' then
  if there and string.find(there, ARGV[3] .. ' ', 1, true) == 1 then
    redis.call('HDEL', KEYS[1], ARGV[2])
  end
  return {}
end
local seen = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or 0)
local given = tonumber(ARGV[3])
local version = given and math.min(given, now) or math.max(now, seen + 1)
if version < seen then
  return {}
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[5])
redis.call('ZADD', KEYS[2], version, ARGV[2])
local since = 0
if there then
  local before, text = string.match(there, '^%d+ (%d+)\n(.*)$')
  since = text == ARGV[4] and tonumber(before) or version
end
redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f %.0f\n%s', version, since, ARGV[4]))
return { version, since }
