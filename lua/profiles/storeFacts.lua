-- Stores facts of a visitor, and the digest of an e-mail address as a member, so that erasures find it.
-- KEYS[1..2] profile, members   KEYS[3] identity to check, if any   KEYS[4..] keys that expire with a guest
-- ARGV[1] deadline   ARGV[2..3] link, generation: see includes/redirect.lua   ARGV[4] guest's TTL, seconds
-- ARGV[5] now, ISO 8601   ARGV[6] `@` and the digest, or empty   ARGV[7] its value, see Keys.members
-- ARGV[8..] field, value, ...
-- Returns 1, or a redirect.
-- Errors: EXPIRED -1.

-- @include deadline
local retention = tonumber(ARGV[4])
-- @include retain
-- @include registered
-- @include not-here
-- @include gone
-- @include redirect

local answer = redirect(KEYS[3] or '', ARGV[2], KEYS[1], ARGV[3])
if answer then
  return answer
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[5])
redis.call('HSET', KEYS[1], 'updatedAt', ARGV[5], unpack(ARGV, 8))
redis.call('HDEL', KEYS[1], 'registered')
if ARGV[6] ~= '' then
  redis.call('HSETNX', KEYS[2], ARGV[6], ARGV[7])
end
if ARGV[3] == '' then
  retain(KEYS[1], { 'p', 'g' }, KEYS[3])
end
return 1
