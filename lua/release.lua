-- Says that pending events are under way no longer: whoever asks for the same deed may take them over at once.
--
-- KEYS[1] outbox of a profile
--
-- ARGV[1]    milliseconds for which a pending event is taken to be under way in another request (as in commit.lua)
-- ARGV[2..]  event ids
--
-- Returns 1. What is not there any more, because it was sent or its profile was merged away, is left alone.

for i = 2, #ARGV do
  local entry = redis.call('HGET', KEYS[1], ARGV[i])
  if entry then
    local since, rest = string.match(entry, '^(%d+)(\n.*)$')
    redis.call('HSET', KEYS[1], ARGV[i], since - ARGV[1] .. rest)
  end
end
return 1
