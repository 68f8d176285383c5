#!lua flags=allow-oom
-- Lists an operation as pending before its first step, and removes it after the last.
-- KEYS[1] pending list, by start time
-- ARGV[1] deadline   ARGV[2] `begin` or `end`   ARGV[3] operation
-- Returns 1.
-- Errors: EXPIRED -1.

-- @include deadline

if ARGV[2] == 'begin' then
  redis.call('ZADD', KEYS[1], 'NX', now, ARGV[3])
else
  redis.call('ZREM', KEYS[1], ARGV[3])
end
return 1
