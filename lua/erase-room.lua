-- Last step of an erasure, for one of its profiles: the profile itself goes, and, if it leads into what is erased, the
-- door of the identity that made it. From here on the profile's id is free for that identity, who is a new visitor.
--
-- KEYS[1] profile   KEYS[2] merges of its bucket   KEYS[3] its maker's door   KEYS[4..] whatever else there may be of it
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   the profile
-- ARGV[3..] the profiles that are erased
--
-- Returns 1, or 0 and nothing was done, where it is not condemned: it was erased before, and may be a new visitor's.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], 'heir') ~= '@' then
  return 0
end
local room = string.match(redis.call('HGET', KEYS[3], '') or '', '^(%S+) ')
for i = 3, #ARGV do
  if room == ARGV[i] then
    redis.call('DEL', KEYS[3])
    break
  end
end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('UNLINK', KEYS[1])
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1
