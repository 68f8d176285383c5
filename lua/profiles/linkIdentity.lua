#!lua flags=allow-oom
-- Replaces an identity's link, a compare-and-set; or leads a session to a guest's profile that is not its default one.
--
-- KEYS[1] identity   KEYS[2] its default profile   KEYS[3] the guest's profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the link as the sender knows it; empty: none, and the identity is unknown
-- ARGV[3] the link from now on; empty: none
-- ARGV[4] if there is a KEYS[3]: seconds for which a guest stays after its last write; 0: for ever
--
-- Returns 1 where that is the link now (also from before), 0 where it is another one; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
local retention = tonumber(ARGV[4] or 0)
-- @include retain
-- @include known
-- @include not-here
-- @include gone

local link = redis.call('HGET', KEYS[1], '')
local is_taken = gone(KEYS[2], '')
if link and link == ARGV[3] then
  return 1
elseif (link or not is_taken and is_known(KEYS[1], KEYS[2]) and '.' or '') ~= ARGV[2] then
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
  make_known(KEYS[3], KEYS[3])
  retain(KEYS[3], { 'p' }, KEYS[1])
end
return 1
