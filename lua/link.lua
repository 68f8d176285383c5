#!lua flags=allow-oom
-- Replaces an identity's link: a compare-and-set.
--
-- KEYS[1] identity   KEYS[2] its default profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the link as the sender knows it; empty: none, and the identity is unknown
-- ARGV[3] the link from now on; empty: none
--
-- Returns 1 where that is the link now (also from before), 0 where it is another one; then nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
-- @include known

local link = redis.call('HGET', KEYS[1], '')
if link and link == ARGV[3] then
  return 1
elseif (link or is_known(KEYS[1], KEYS[2]) and '.' or '') ~= ARGV[2] then
  return 0
elseif ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('HSET', KEYS[1], '', ARGV[3])
end
return 1
