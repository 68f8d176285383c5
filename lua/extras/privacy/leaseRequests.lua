#!lua flags=allow-oom
-- Acquires, extends or releases the lease of the process that works at open requests.
--
-- KEYS[1] owner
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the process
-- ARGV[3] milliseconds of the lease; 0 releases it
--
-- Returns 1; 0 and nothing was done if another process has the lease.
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
