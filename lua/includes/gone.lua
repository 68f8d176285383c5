-- Returns `!` if a linked profile was erased or its id reused, or if a guest's (`generation` is empty) is linked or
-- merged; `~` if it is not at this node; else nil.
local function gone(profile, generation)
  local found = redis.pcall('HMGET', profile, 'generation', 'target')
  if found.err then
    return answer_of(found)
  elseif (found[1] or '') ~= generation or found[2] then
    return '!'
  end
end
