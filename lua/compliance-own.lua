#!lua flags=allow-oom
-- Makes a process the one that works at open requests, for some seconds.
--
-- KEYS[1] owner
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the process
-- ARGV[3] milliseconds; 0: it stops
--
-- Returns 1; 0 and nothing was done, where it is another one.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[2] then
  return 0
end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
