-- Says that pending events are under way no longer: the next request for the same deed may take them over at once.
--
-- KEYS[1] outbox of a profile
--
-- ARGV[1]    deadline, in milliseconds of this server's clock
-- ARGV[2]    milliseconds for which a pending event is taken to be under way in another request (as in commit.lua)
-- ARGV[3..]  event ids
--
-- Returns 1. What is not there any more, because it was sent or its profile was merged away, is left alone.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

for i = 3, #ARGV do
  local entry = redis.call('HGET', KEYS[1], ARGV[i])
  if entry then
    local since, rest = string.match(entry, '^(%d+)(\n.*)$')
    redis.call('HSET', KEYS[1], ARGV[i], since - ARGV[2] .. rest)
  end
end
return 1
