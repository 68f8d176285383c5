-- Lets a guest live on after a write: all of its keys end at one moment, `retention` seconds and up to a day after the write;
-- 0: never. The moment is set anew about once a day, and with each further key. An end in time is in time for an hour more:
-- for so long a sender may count a guest's visits without a look at it. `now`: milliseconds. `guest`: any of its keys.
local HOUR_MS, DAY_MS = 3600000, 86400000
local GUEST_KINDS = { 'v', 'p', 'i', 'g' }
local least = retention > 0 and now + retention * 1000 + HOUR_MS or -1
local most = retention > 0 and now + retention * 1000 + DAY_MS or -1

-- Whether a key ends neither too early nor too late. `ends`: of PEXPIRETIME.
local function is_in_time(ends)
  return ends >= least and ends <= most
end

local function key_of(guest, kind)
  local at = string.find(guest, '}:', 1, true)
  return string.sub(guest, 1, at + 1) .. kind .. string.sub(guest, at + 3)
end

-- Whether those that exist of a guest's keys end at one moment, neither too early nor too late.
local function are_kept(guest, kinds)
  local ends
  for _, kind in ipairs(kinds) do
    local at = redis.pcall('PEXPIRETIME', key_of(guest, kind))
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
local function are_here(guest)
  for _, kind in ipairs(GUEST_KINDS) do
    if type(redis.pcall('PEXPIRETIME', key_of(guest, kind))) == 'table' then
      return false
    end
  end
  return true
end

-- Call it only if `are_here`: else the guest's keys would end apart. `written`: kinds of the keys that a script may have made;
-- of one that was there where it has made none. The others end as those do that were there before. `identity`: key that leads
-- to a guest elsewhere, and ends with it.
local function retain(guest, written, identity)
  if are_kept(guest, written) then
    return
  end
  local ending = { identity }
  for _, kind in ipairs(GUEST_KINDS) do
    ending[#ending + 1] = key_of(guest, kind)
  end
  for _, key in ipairs(ending) do
    if retention > 0 then
      redis.call('PEXPIREAT', key, most)
    else
      redis.call('PERSIST', key)
    end
  end
end
