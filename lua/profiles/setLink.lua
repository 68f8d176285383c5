#!lua flags=allow-oom
-- Compare-and-set of a session's link to a customer, without a merge. It expires like a guest, unless the session's data
-- were merged before: without a link such a session is retired.
-- KEYS[1..2] session's counts, profile
-- ARGV[1] deadline
-- ARGV[2] expected link, or empty
-- ARGV[3] new link: `<customer's profile> <link id>`
-- ARGV[4] guest's TTL, seconds
-- Returns 1 if the session now has the new link; 0 if it has another link, or is a guest.
-- Errors: EXPIRED.

-- @include deadline
local retention = tonumber(ARGV[4])
-- @include profile-keys
-- @include retain

local link = redis.call('HGET', KEYS[1], '')
local is_merged = redis.call('HEXISTS', KEYS[2], 'target') == 1
local wanted = ARGV[3] .. (is_merged and ' merged' or ' led')
if link == wanted then
  return 1
elseif (link or '') ~= ARGV[2] then
  return 0
elseif not link and not is_merged and redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  return 0
end
redis.call('HSET', KEYS[1], '', wanted)
if is_merged then
  redis.call('PERSIST', KEYS[1])
else
  expire(KEYS[1])
end
return 1
