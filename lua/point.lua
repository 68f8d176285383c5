#!lua flags=allow-oom
-- Says where an identity belongs from now on, unless that changed since it was asked: a compare-and-set.
--
-- KEYS[1] its door   KEYS[2] its own profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its field as the sender knows it: `<room> <move>`, or empty where it is unknown. (At home: see move-out.lua.)
-- ARGV[3] its new field, `<room> <move>`, with a move number greater by one
--
-- Returns 1 where this is its field now (again, too), 0 where it has another one; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
-- @include known

local field = redis.call('HGET', KEYS[1], '')
if field == ARGV[3] then
  return 1
end
if (field or is_known(KEYS[1], KEYS[2]) and '.' or '') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], '', ARGV[3])
return 1
