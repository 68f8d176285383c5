#!lua flags=allow-oom
-- Adds a member to a linked profile. The member is linked afterwards, so an erasure of the profile finds every link.
-- Or sets a member's note, such as the mergeId of a complete merge.
-- KEYS[1..2] profile, members
-- ARGV[1..3] deadline, generation, member   ARGV[4] note, or empty
-- Returns 1; 0 if the profile lacks the generation.
-- Errors: EXPIRED -1.

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
