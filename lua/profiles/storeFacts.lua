-- Stores facts of a visitor, and the digest of an e-mail address as a member, so that erasures find it.
-- KEYS[1..2] profile, members
-- ARGV[1] deadline
-- ARGV[2..3] session, link id: see includes/fence.lua
-- ARGV[4] guest's TTL, seconds
-- ARGV[5] now, ISO 8601
-- ARGV[6] member `email:<digest>`, or empty
-- ARGV[7..] field, value, ...
-- Returns 1, or an answer of includes/fence.lua.
-- Errors: EXPIRED -1.

-- @include deadline
local retention = tonumber(ARGV[4])
-- @include profile-keys
-- @include retain
-- @include not-here
-- @include fence

local answer = fence(KEYS[1], ARGV[2], ARGV[3])
if answer then
  return retain_link(KEYS[1], answer)
elseif not are_here(KEYS[1]) then
  return '~'
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[5])
redis.call('HSET', KEYS[1], 'updatedAt', ARGV[5], unpack(ARGV, 7))
redis.call('HDEL', KEYS[1], 'registered')
if ARGV[6] ~= '' then
  redis.call('HSETNX', KEYS[2], ARGV[6], '')
end
retain(KEYS[1], { 'p', 'g' })
return 1
