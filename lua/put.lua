-- Writes a string, or removes it.
--
-- KEYS[1] key
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its value; empty to remove it
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
