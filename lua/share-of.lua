#!lua flags=no-writes
-- Says whether a share code is a profile's: the key of a code may outlive what it leads to.
--
-- KEYS[1] profile   KEYS[2] merged: what came to it
--
-- ARGV[1] the code
--
-- Returns 1 or 0, or the heir's id (string) where the profile was merged away, `!` before it while the merge is under way,
-- `@` where it is being erased.

local facts = redis.call('HMGET', KEYS[1], 'heir', 'share')
if facts[1] then
  return facts[1]
end
return (facts[2] == ARGV[1] or redis.call('HEXISTS', KEYS[2], '#' .. ARGV[1]) == 1) and 1 or 0
