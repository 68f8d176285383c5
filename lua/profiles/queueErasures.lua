#!lua flags=allow-oom
-- Records erasures: rows of these profiles up to a moment are to be erased from streams and from ClickHouse. (Later rows may belong
-- to new visitors with the same ids.)
--
-- KEYS[1] erasures
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   the moment, in milliseconds of servers' clocks   ARGV[3] milliseconds since then
-- ARGV[4..] the profiles
--
-- Returns 1. An erasure is stored as `<milliseconds of servers' clocks> <milliseconds of this server's clock>`.
-- Errors: EXPIRED -1; nothing was done.

local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
if ms > tonumber(ARGV[1]) then
  return -1
end

for i = 4, #ARGV do
  local before = redis.call('HGET', KEYS[1], ARGV[i])
  local sent = math.max(tonumber(ARGV[2]), tonumber(before and string.match(before, '^%d+') or 0))
  redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f', sent) .. ' ' .. string.format('%.0f', ms - ARGV[3]))
end
return 1
