-- Returns nil, or why the operation belongs to another profile or node:
--   `@<link>`  the identity's link isn't the expected one, but this one; empty if it has none
--   `!`        see gone.lua
--   `~`        see not-here.lua
-- `identity` is a key, or empty to check only the profile. `generation` is empty for a guest.
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
