-- Makes a room a customer's, where it has no owner. Every room has one since it is a room; one without is what a
-- failover forgot. Where its owner is unknown, `?` is the owner until a customer is.
--
-- KEYS[1] profile of the room
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the customer, `c:<customer>`, or `?`
--
-- Returns 1. Where the room has an owner, or was merged away, nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner')
if not facts[1] and (facts[2] or '?') == '?' then
  redis.call('HSET', KEYS[1], 'owner', ARGV[2])
end
return 1
