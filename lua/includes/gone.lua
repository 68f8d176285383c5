-- `!` if a linked profile is gone, or another one has its id: its generation differs. Or if a guest's (`generation` is empty) is
-- another visitor's: a customer's, or merged into one. `~` if its key is not at this node, or on the move. Else nil.
local function gone(profile, generation)
  local found = redis.pcall('HMGET', profile, 'generation', 'target')
  if found.err then
    return answer_of(found)
  elseif (found[1] or '') ~= generation or found[2] then
    return '!'
  end
end
