-- Extends a guest's TTL after a write. `retention` is the TTL in seconds; 0 means never. All keys of a guest expire
-- together, between an hour and a day after `retention` has passed. The hour is needed because a sender skips the check
-- for an hour after each check (src/visits/kept-guests.ts). `guest` is any of the guest's keys.
-- @include codes
local HOUR_MS, DAY_MS = 3600000, 86400000
local GUEST_KINDS = { 'v', 'p', 'i', 'g' }
local least = retention > 0 and now + retention * 1000 + HOUR_MS or -1
local most = retention > 0 and now + retention * 1000 + DAY_MS or -1

local function is_in_time(ends)
  return ends >= least and ends <= most
end

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

-- Returns false if a key is absent in a migrating slot, because it may be at the other node. Any absent key shows whether
-- the slot is migrating, so the kinds that guests rarely have come first.
local function are_here(guest)
  for kind = #GUEST_KINDS, 1, -1 do
    local ends = redis.pcall('PEXPIRETIME', key_of(guest, GUEST_KINDS[kind]))
    if type(ends) == 'table' then
      return false
    elseif ends == -2 then
      return true
    end
  end
  return true
end

local function expire(key)
  if retention > 0 then
    redis.call('PEXPIREAT', key, string.format('%d', most)) -- text: Redis formats numbers as floating-point
  else
    redis.call('PERSIST', key)
  end
end

-- Requires `are_here`, because all keys must expire together. `written` has the kinds that may be new. If there are
-- none, it has any kind that exists. A customer's profile doesn't expire.
local function retain(guest, written)
  if is_customer(guest) or are_kept(guest, written) then
    return
  end
  for _, kind in ipairs(GUEST_KINDS) do
    expire(key_of(guest, kind))
  end
end

-- A link without a merge expires like a guest. Call if a write finds it.
local function retain_link(guest, answer)
  if string.sub(answer, 1, 1) == LINKED and string.sub(answer, -4) == ' led' then
    local counts = key_of(guest, 'v')
    if not is_in_time(redis.call('PEXPIRETIME', counts)) then
      expire(counts)
    end
  end
  return answer
end
