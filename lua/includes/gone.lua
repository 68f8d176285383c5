-- Returns `!` if a linked profile was erased, also if its id was reused. `generation` is empty for a guest's profile:
-- then returns `!` if it was linked or merged. Returns `~` if the profile isn't at this node; otherwise nil.
local function gone(profile, generation)
  local found = redis.pcall('HMGET', profile, 'generation', 'target')
  if found.err then
    return answer_of(found)
  elseif (found[1] or '') ~= generation or found[2] then
    return '!'
  end
end
