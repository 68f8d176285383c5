-- Writes a string, or removes it.
--
-- KEYS[1] key
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its value; empty to remove it
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 > tonumber(ARGV[1]) then
  return -1
end

if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
