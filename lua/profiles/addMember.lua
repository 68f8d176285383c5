#!lua flags=allow-oom
-- Lists a member of a linked profile, before anything leads there: so an erasure of the profile knows all that does. Or notes
-- that all of a merged profile has arrived.
--
-- KEYS[1] profile   KEYS[2] its members
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the profile's generation
-- ARGV[3] an identity, or a merged profile's id   ARGV[4] a note beside it that replaces an earlier one, or empty
--
-- Returns 1; 0, and nothing was done, where the profile is gone.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[2] then
  return 0
end
if ARGV[4] == '' then
  redis.call('HSETNX', KEYS[2], ARGV[3], '')
else
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
return 1
