-- Makes a session's linked profile its customer's.
--
-- KEYS[1] profile
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its generation   ARGV[3] the customer, `c:<customer>`
--
-- Returns the owner as it is now: another customer is not replaced. Empty, and nothing was done, where the profile is gone.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[1], 'generation', 'owner')
if facts[1] ~= ARGV[2] then
  return ''
elseif string.find(facts[2], '^[cC]:') then
  return facts[2]
end
redis.call('HSET', KEYS[1], 'owner', ARGV[3])
return ARGV[3]
