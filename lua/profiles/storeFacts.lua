-- Stores facts of a visitor, and the digest of an e-mail address as a member, so that erasures find it. Without facts it
-- creates an unknown visitor.
-- KEYS[1..3] profile, members, time of the last erasure
-- ARGV[1] deadline
-- ARGV[2..3] session, link id: see includes/fence.lua
-- ARGV[4] guest's TTL, seconds
-- ARGV[5] now, ISO 8601
-- ARGV[6] member `email:<digest>`, or empty
-- ARGV[7] the time of an order by the clocks of `serve`, ms since 1970, or empty
-- ARGV[8..] field, value, ...
-- Returns 1; 0 if the profile was erased since the order; or an answer of includes/fence.lua.
-- Errors: EXPIRED.

-- @include codes
-- @include deadline
local retention = tonumber(ARGV[4])
-- @include profile-keys
-- @include retain
-- @include registered
-- @include not-here
-- @include fence

local answer = fence(KEYS[1], ARGV[2], ARGV[3])
if answer then
  return retain_link(KEYS[1], answer)
elseif not are_here(KEYS[1]) then
  return NOT_HERE
elseif ARGV[7] ~= '' and ARGV[2] == '' then
  local erased_at = string.match(redis.call('GET', KEYS[3]) or '', ' (%d+)$')
  if erased_at and tonumber(erased_at) >= tonumber(ARGV[7]) then
    return 0
  end
end
if #ARGV == 7 then
  register(key_of(KEYS[1], 'v'), KEYS[1])
  retain(KEYS[1], { 'v', 'p' })
  return 1
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[5])
redis.call('HSET', KEYS[1], 'updatedAt', ARGV[5], unpack(ARGV, 8))
redis.call('HDEL', KEYS[1], 'registered')
if ARGV[6] ~= '' then
  redis.call('HSETNX', KEYS[2], ARGV[6], '')
end
retain(KEYS[1], { 'p', 'g' })
return 1
