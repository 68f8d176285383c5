#!lua flags=allow-oom
-- Second step of a merge, for one page of a journal: adds it to the heir. What the heir received from this profile is
-- kept beside it, so that a page given again adds nothing, and a profile that is merged a second time (because a
-- failover forgot the first at its side) adds only what it has gained. Counts are added; of two items for one product
-- and variant the heir's stays; what the heir's profile does not know yet it learns.
--
-- KEYS[1] profile of the heir   KEYS[2] what is given to: room, items, profile or merged of the heir
-- KEYS[3] received by the heir from this profile   KEYS[4] merged: what came to the heir
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   kind: v counts, i items, p profile, g merged
-- ARGV[3]   seconds for which what was received is remembered
-- ARGV[4]   the profile that is merged away; the heir expects it (see register.lua)
-- ARGV[5..] field, value, field, value, ...
--
-- Returns 1, or where the heir was merged away itself, and nothing was done: {its heir (`!` before it while that
-- merge is under way), field, value, ...} with what is left to be given to that one.
-- `@`, and nothing was done, where the heir is being erased, or does not expect it (any more).
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local kind = ARGV[2]
local heir = redis.call('HGET', KEYS[1], 'heir')
if heir == '@' or not heir and redis.call('HEXISTS', KEYS[4], ARGV[4]) == 0 then
  return '@'
end
local left, bytes = { heir }, 0
for i = 5, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local mark = kind .. field
  local received = redis.call('HGET', KEYS[3], mark)
  if kind == 'v' then
    local gained = tonumber(value) - tonumber(received or 0)
    if gained > 0 and heir then
      left[#left + 1], left[#left + 2] = field, string.format('%.0f', gained)
    elseif gained > 0 then
      redis.call('HINCRBY', KEYS[2], field, string.format('%.0f', gained))
      redis.call('HSET', KEYS[3], mark, value)
    end
  elseif not received and heir then
    left[#left + 1] = field
    left[#left + 1] = value
  elseif not received then
    if redis.call('HSETNX', KEYS[2], field, value) == 1 and kind == 'i' then
      bytes = bytes + #value
    end
    redis.call('HSET', KEYS[3], mark, 1)
  end
end
if heir then
  return left
end
if bytes > 0 and redis.call('HEXISTS', KEYS[1], 'itemBytes') == 1 then
  redis.call('HINCRBY', KEYS[1], 'itemBytes', bytes)
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('EXPIRE', KEYS[3], ARGV[3])
end
return 1
