-- These functions are for identities without a link.
local function is_registered(identity, profile)
  return redis.call('EXISTS', identity, profile) > 0
end

local function register(identity, profile)
  if not is_registered(identity, profile) then
    redis.call('HSET', profile, 'registered', '1')
  end
end
