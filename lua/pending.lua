#!lua flags=allow-oom
-- Writes an operation of several steps into the list of pending ones before it begins, and removes it when it has ended. The list
-- is sorted by the time at which they began: milliseconds of this server's clock.
--
-- KEYS[1] pending operations
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] `begin` or `end`   ARGV[3] the operation
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if ARGV[2] == 'begin' then
  redis.call('ZADD', KEYS[1], 'NX', now, ARGV[3])
else
  redis.call('ZREM', KEYS[1], ARGV[3])
end
return 1
