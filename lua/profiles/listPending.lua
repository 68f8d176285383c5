#!lua flags=allow-oom
-- Lists an operation of several steps as pending before its first step, and removes it after the last. Sorted by start
-- time.
-- KEYS[1] pending operations
-- ARGV[1] deadline   ARGV[2] `begin` or `end`   ARGV[3] the operation
-- Returns 1.
-- Errors: EXPIRED -1.

-- @include deadline

if ARGV[2] == 'begin' then
  redis.call('ZADD', KEYS[1], 'NX', now, ARGV[3])
else
  redis.call('ZREM', KEYS[1], ARGV[3])
end
return 1
