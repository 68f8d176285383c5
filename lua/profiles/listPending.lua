#!lua flags=allow-oom
-- Adds an operation of several steps to the list of pending ones before its first step, and removes it after the last. The list is
-- sorted by start time, in milliseconds of this server's clock.
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
