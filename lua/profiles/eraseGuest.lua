#!lua flags=allow-oom
-- Erases a guest with everything that it has, in one step.
--
-- KEYS[1] identity   KEYS[2] the guest's profile   KEYS[3] members of that   KEYS[4..] what else it has
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] what must be among its members, else nothing is done: `@` and the digest of the address by which it was found. Empty
--         where it was not. (Its profile id may be that of one who came back since, and gave no address.)
-- ARGV[3] what leads the identity to a profile that is not its default one, or empty
--
-- Returns {1 where it was known, else 0, its share code or empty}, or a redirect (see includes/redirect.lua), and nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
-- @include known
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
local was_known = is_known(KEYS[1], KEYS[2]) and 1 or 0
local code = redis.call('HGET', KEYS[2], 'share') or ''
for i = 1, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return { was_known, code }
