-- Returns `!` if a linked profile was erased or its id reused, or if a guest's profile (`generation` is empty) was
-- linked or merged; `~` if the profile isn't at this node; otherwise nil.
local function gone(profile, generation)
  local found = redis.pcall('HMGET', profile, 'generation', 'target')
  if found.err then
    return answer_of(found)
  elseif (found[1] or '') ~= generation or found[2] then
    return '!'
  end
end
