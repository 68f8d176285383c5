-- Nil, or why an operation must be done elsewhere:
--   `@<link>`  the identity has this link (empty: none), not the expected one
--   `!`        see gone.lua
--   `~`        a key is not at this node, or its slot is migrating
-- `identity`: its key; empty if verified before. `expected`: the link, or empty. `generation`: of a linked profile, or
-- empty.
local function redirect(identity, expected, profile, generation)
  if identity ~= '' then
    local link = redis.pcall('HGET', identity, '')
    if type(link) == 'table' then
      return answer_of(link)
    elseif (link or '') ~= expected then
      return '@' .. (link or '')
    end
  end
  return gone(profile, generation)
end
