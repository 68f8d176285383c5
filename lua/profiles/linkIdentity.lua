#!lua flags=allow-oom
-- Compare-and-set of an identity's link, also to a guest's profile that isn't the default one.
-- KEYS[1..2] identity, default profile   KEYS[3] guest's profile, if any
-- ARGV[1] deadline   ARGV[2] expected answer of `peek`, see countVisits.lua; empty for `!`, too
-- ARGV[3] new link; empty to remove it   ARGV[4] guest's TTL, seconds
-- Returns 1 if the identity now has the new link; otherwise 0.
-- Errors: EXPIRED -1.

-- @include deadline
local retention = tonumber(ARGV[4] or 0)
-- @include retain
-- @include registered
-- @include not-here
-- @include gone

local link = redis.call('HGET', KEYS[1], '')
local is_taken = gone(KEYS[2], '')
if link and link == ARGV[3] then
  return 1
elseif (link or not is_taken and is_registered(KEYS[1], KEYS[2]) and '.' or '') ~= ARGV[2] then
  return 0
elseif ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
  return 1
elseif KEYS[3] and gone(KEYS[3], '') then
  return 0
end
redis.call('HSET', KEYS[1], '', ARGV[3])
redis.call('PERSIST', KEYS[1])
if KEYS[3] then
  register(KEYS[3], KEYS[3])
  retain(KEYS[3], { 'p' }, KEYS[1])
end
return 1
