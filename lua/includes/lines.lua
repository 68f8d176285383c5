-- Reads `text` line by line. string.find is faster than a pattern.
local find, sub, at = string.find, string.sub, 1
local function line()
  local from, stop = at, find(text, '\n', at, true)
  at = stop + 1
  return sub(text, from, stop - 1)
end
