#!lua flags=allow-oom
-- Says where an identity belongs from now on, unless that changed since it was asked: a compare-and-set.
--
-- KEYS[1] ids of the identity's bucket   KEYS[2] its door
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the identity, `s:<session>` or `c:<customer>`
-- ARGV[3] its field as the sender knows it: `<room> <move>`, or empty where it is unknown. (At home: see move-out.lua.)
-- ARGV[4] its new field, `<room> <move>`, with a move number greater by one
--
-- Returns 1 where this is its field now (again, too), 0 where it has another one; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local field = redis.call('HGET', KEYS[1], ARGV[2])
if field == ARGV[4] then
  return 1
end
if (field or (redis.call('EXISTS', KEYS[2]) == 1 and '.') or '') ~= ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
redis.call('SET', KEYS[2], '')
return 1
