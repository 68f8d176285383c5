#!lua flags=allow-oom
-- Acquires, extends or releases the lease on open requests.
-- KEYS[1] lease
-- ARGV[1..2] deadline, process   ARGV[3] milliseconds; 0 to release
-- Returns 1; 0 if another process has the lease.
-- Errors: EXPIRED.

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
