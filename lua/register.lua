#!lua flags=allow-oom
-- Registers at a room what is about to lead to it: an identity whose door will name it, or a profile that will be merged
-- into it. So an erasure of the room finds everything that leads there, whatever crashes in between.
--
-- KEYS[1] profile of the room   KEYS[2] merged: what came to the room
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] an identity, `s:<session>` or `c:<customer>`, or a profile's id
--
-- Returns 1, or a string and nothing was done: the heir's id, `!` before it while the merge is under way; `@` where it is
-- being erased, or is no room (any more).
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner')
if facts[1] or not facts[2] then
  return facts[1] or '@'
end
redis.call('HSETNX', KEYS[2], ARGV[2], '')
return 1
