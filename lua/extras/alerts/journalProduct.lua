-- Journals a product before its alerts are sent, and removes it from the journal afterwards. The newest version wins.
--
-- KEYS[1] journal of products   KEYS[2] recent versions of products
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the product's id
-- ARGV[3] its version, milliseconds since 1970. A time in the future counts as now: else it would outrank all changes until then.
--         Empty: now, but later than any version before
-- ARGV[4] the product; empty removes that version from the journal
-- ARGV[5] milliseconds for which versions are remembered
--
-- An entry is `<version> <since>\n<product>`. Since: a process may still be sending alerts for an older, different version; it is
-- the first version that replaced one. 0 if there was none.
--
-- Returns {version, since}; {} if it was removed, or a newer version exists: then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

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
