-- Writes down a product as it is now, before its wishers are told, and strikes it out when they are. Of two that are written
-- down the newer one stays.
--
-- KEYS[1] products whose wishers are being told   KEYS[2] versions that products had lately
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the product's id
-- ARGV[3] its version, milliseconds since 1970, and no later than now: a later one would outrank all changes until then;
--         empty: this moment, and later than any before
-- ARGV[4] what it is like; empty to strike out that version
-- ARGV[5] milliseconds for which versions are remembered
--
-- What is written down is `<version> <since>\n<what it is like>`. Since: the version that came while one was there that was not
-- like it, which a process may still tell of; 0 where there was none.
--
-- Returns {version, since}; {} where it was struck out, or where a newer version was there: then nothing was done.
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
