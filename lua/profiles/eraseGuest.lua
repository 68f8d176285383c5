#!lua flags=allow-oom
-- Erases a guest.
-- KEYS[1..3] identity, profile, members   KEYS[4..] other keys
-- ARGV[1] deadline   ARGV[2] required member, because the id may have been reused, or empty
-- ARGV[3] the identity's link to another guest profile, or empty
-- Returns {1, share code or empty}; {0, empty} if there is no such guest; or a redirect.
-- Errors: EXPIRED -1.

-- @include deadline
-- @include registered
-- @include not-here
-- @include gone

local link = redis.call('HGET', KEYS[1], '')
if link and link ~= ARGV[3] then
  return '@' .. link
end
local answer = gone(KEYS[2], '')
if answer then
  return answer
elseif ARGV[2] ~= '' and redis.call('HEXISTS', KEYS[3], ARGV[2]) == 0 then
  return { 0, '' }
end
local was_registered = is_registered(KEYS[1], KEYS[2]) and 1 or 0
local code = redis.call('HGET', KEYS[2], 'share') or ''
for i = 1, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return { was_registered, code }
