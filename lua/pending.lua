#!lua flags=allow-oom
-- Writes down an operation of several steps before it begins, and strikes it out when it has ended.
--
-- KEYS[1] operations under way   KEYS[2] merges of the last hours
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] `begin`; `end`; or `keep`: it has ended, and stays among the merges   ARGV[3] seconds for which merges are kept
-- ARGV[4] the operation
--
-- Both are sorted by the time of this server's clock at which they were written, in milliseconds.
--
-- Returns 1.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if ARGV[2] == 'begin' then
  redis.call('ZADD', KEYS[1], 'NX', now, ARGV[4])
  return 1
end
redis.call('ZREM', KEYS[1], ARGV[4])
redis.call('ZREM', KEYS[2], ARGV[4])
if ARGV[2] == 'keep' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[3] * 1000)
  redis.call('ZADD', KEYS[2], now, ARGV[4])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
return 1
