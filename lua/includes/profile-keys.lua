-- Keys of one profile, from any of them: `<prefix>:{<bucket>}:<kind>:<hash>`. The hash begins with `c` or `s`.
local split, head, tail
local function key_of(key, kind)
  if key ~= split then
    local at = string.find(key, '}:', 1, true)
    split, head, tail = key, string.sub(key, 1, at + 1), string.sub(key, at + 3)
  end
  return head .. kind .. tail
end

local function is_customer(key)
  return string.byte(key, -17) == 99
end
