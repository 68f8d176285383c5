-- A profile exists if it has counts or facts. One that has neither gets the fact `registered`.
local function is_registered(counts, profile)
  return redis.call('EXISTS', counts, profile) > 0
end

local function register(counts, profile)
  if not is_registered(counts, profile) then
    redis.call('HSET', profile, 'registered', '1')
  end
end
