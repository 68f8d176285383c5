-- of an identity without a link
local function is_known(identity, profile)
  return redis.call('EXISTS', identity, profile) > 0
end

local function make_known(identity, profile)
  if not is_known(identity, profile) then
    redis.call('HSET', profile, 'known', '1')
  end
end
