#!lua flags=allow-oom
-- Adds a member to a linked profile before its link, so that an erasure finds it; or notes that a merge is complete.
-- KEYS[1] profile   KEYS[2] members
-- ARGV[1] deadline   ARGV[2] generation   ARGV[3] identity or merged profile
-- ARGV[4] a note that replaces an earlier one, or empty
-- Returns 1; 0 if the profile does not exist.
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
