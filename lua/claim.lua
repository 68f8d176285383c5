#!lua flags=allow-oom
-- Makes a room a customer's, where it is no customer's. A room without an owner is what a failover forgot; where its
-- owner is unknown, `?` is the owner until a customer is. A room under a fresh id is its session's (free-door.lua). A room
-- does not end, and what is there may be of the guest that it was before.
--
-- KEYS[1] profile of the room   KEYS[2..] whatever else it has
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the customer, `c:<customer>`, or `?`
--
-- Returns 1. Where the room is a customer's, or was merged away, nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner')
if not facts[1] and not string.find(facts[2] or '?', '^[cC]:') then
  redis.call('HSET', KEYS[1], 'owner', ARGV[2])
  for i = 1, #KEYS do
    redis.call('PERSIST', KEYS[i])
  end
end
return 1
