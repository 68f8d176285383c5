-- Lets a guest live on after a write: all of its keys end at one moment, `retention` seconds and up to a day after the write;
-- 0: never. The moment is set anew about once a day, and with each further key. `now`: milliseconds. `identity`: key of a
-- session without a link.
local DAY_MS = 86400000
local GUEST_KINDS = { 'v', 'p', 'i', 'g' }
local least = retention > 0 and now + retention * 1000 or -1
local most = retention > 0 and least + DAY_MS or -1

-- Whether a key ends neither too early nor too late. `ends`: of PEXPIRETIME.
local function is_in_time(ends)
  return ends >= least and ends <= most
end

local function key_of(identity, kind)
  local at = string.find(identity, '}:v:', 1, true)
  return string.sub(identity, 1, at + 1) .. kind .. string.sub(identity, at + 3)
end

-- Whether those that exist of a guest's keys end at one moment, neither too early nor too late.
local function are_kept(identity, kinds)
  local ends
  for _, kind in ipairs(kinds) do
    local at = redis.pcall('PEXPIRETIME', key_of(identity, kind))
    if at ~= -2 then
      if type(at) == 'table' or not is_in_time(at) or at ~= (ends or at) then
        return false
      end
      ends = at
    end
  end
  return ends ~= nil
end

-- Whether all of a guest's keys can be given an end. In a migrating slot a key that is missing here may be at the other node.
local function are_here(identity)
  for _, kind in ipairs(GUEST_KINDS) do
    if type(redis.pcall('PEXPIRETIME', key_of(identity, kind))) == 'table' then
      return false
    end
  end
  return true
end

-- Call it only if `are_here`: else the guest's keys would end apart. `written`: kinds of the keys that a script may have made;
-- of one that was there where it has made none. The others end as those do that were there before.
local function retain(identity, written)
  if are_kept(identity, written) then
    return
  end
  for _, kind in ipairs(GUEST_KINDS) do
    if retention > 0 then
      redis.call('PEXPIREAT', key_of(identity, kind), most)
    else
      redis.call('PERSIST', key_of(identity, kind))
    end
  end
end
