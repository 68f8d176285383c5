-- Returns `!` if a linked profile was erased, or a guest's (`generation` is empty) was linked or merged. Returns `~` if
-- the profile isn't at this node; otherwise nil.
local function gone(profile, generation)
  local found = redis.pcall('HMGET', profile, 'generation', 'target')
  if found.err then
    return answer_of(found)
  elseif (found[1] or '') ~= generation or found[2] then
    return '!'
  end
end
