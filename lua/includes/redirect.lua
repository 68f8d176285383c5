-- Where an operation has to be done instead, or nil:
--   `@<link>`  the identity's link (empty: it has none) is not the one that the sender expects
--   `!`        the profile is not that visitor's, see includes/gone.lua
--   `~`        a key is not at this node, or it is on the move
-- `identity`: its key, empty where the link was read before. `expected`: the link, empty for none. `generation`: of a linked
-- profile, empty where the identity has no link.
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
