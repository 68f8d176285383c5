-- Whether an identity without a link is known: it has counts, or a profile.
local function is_known(identity, profile)
  return redis.call('EXISTS', identity, profile) > 0
end

-- Makes it known, also where it has nothing yet, or nothing any more.
local function make_known(identity, profile)
  if not is_known(identity, profile) then
    redis.call('HSET', profile, 'known', '1')
  end
end
