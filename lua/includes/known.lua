-- Whether an identity that is at home is known: it has counts, or a profile that is no room of others.
local function is_known(door, profile)
  if redis.call('EXISTS', door) == 1 then
    return true
  end
  local facts = redis.call('HMGET', profile, 'owner', 'heir')
  return not facts[1] and not facts[2] and redis.call('EXISTS', profile) == 1
end

-- Makes it known, also where it has nothing yet, or nothing any more.
local function make_known(door, profile)
  if not is_known(door, profile) then
    redis.call('HSET', profile, 'known', '1')
  end
end
