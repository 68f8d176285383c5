-- Lets a guest live on after a write: all of its keys end at one moment, so many `seconds` and up to a day after the write;
-- 0: never. The moment is set anew at most once a day. `identity`: key of a session without a link.
local DAY_MS, GUEST_KINDS = 86400000, { 'v', 'p', 'i', 'g' }
local function key_of(identity, kind)
  return (string.gsub(identity, '}:v:', '}:' .. kind .. ':', 1))
end
local function retain(identity, seconds)
  local now = redis.call('TIME')
  local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
  local least = now_ms + seconds * 1000
  local ends, keys, is_due = 0, {}, false
  for i, kind in ipairs(GUEST_KINDS) do
    local key = i == 1 and identity or key_of(identity, kind)
    local at = redis.pcall('PEXPIRETIME', key)
    -- -2: there is no such key; an error: it has moved with its slot.
    if type(at) == 'number' and at ~= -2 then
      keys[#keys + 1] = key
      local is_good = seconds == 0 and at == -1 or seconds > 0 and at >= least and at <= least + DAY_MS
      is_due = is_due or not is_good or ends > 0 and at ~= ends
      ends = is_good and math.max(ends, at) or ends
    end
  end
  if not is_due then
    return
  end
  for _, key in ipairs(keys) do
    if seconds == 0 then
      redis.call('PERSIST', key)
    else
      redis.call('PEXPIREAT', key, string.format('%.0f', ends > 0 and ends or least + DAY_MS))
    end
  end
end
