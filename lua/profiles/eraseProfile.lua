#!lua flags=allow-oom
-- Erases a guest or customer. The members are set aside, with the time as `at`, the customer's name as `name`, and the
-- erasure's `id`, until nothing leads to the profile.
-- KEYS[1..7] counts, profile, items, members, frozen counts, members set aside, time of the last erasure
-- ARGV[1] deadline
-- ARGV[2] member that the profile must have, because another visitor may have got its id; or empty
-- ARGV[3] the customer's name, or empty
-- ARGV[4] the time by the clocks of `serve`, ms since 1970
-- ARGV[5] TTL of the time, seconds   ARGV[6] id of the erasure, as in the list of pending work
-- Returns 1 if the profile existed, 0 if not; or an answer of includes/fence.lua.
-- Errors: EXPIRED, SET_ASIDE.

-- @include codes
-- @include deadline
-- @include profile-keys
-- @include not-here
-- @include fence

local answer = fence(KEYS[2], '')
if answer then
  return answer
elseif redis.call('EXISTS', KEYS[6]) == 1 then
  return SET_ASIDE
elseif ARGV[2] ~= '' and redis.call('HEXISTS', KEYS[4], ARGV[2]) == 0 then
  return 0
end
local existed = redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 and 1 or 0
local facts = redis.call('HMGET', KEYS[2], 'name', 'share', 'lastLink')
if redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('RENAME', KEYS[4], KEYS[6])
  redis.call('PERSIST', KEYS[6])
end
local name = ARGV[3] ~= '' and ARGV[3] or facts[1] or ''
redis.call('HSET', KEYS[6], 'at', string.format('%.0f', now), 'name', name, 'id', ARGV[6])
if facts[2] then
  redis.call('HSET', KEYS[6], 'share:' .. facts[2], '')
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[5])
-- No earlier than the last link, whatever the clock does: see addMember.lua.
local last = math.max(now, tonumber(facts[3] or 0), tonumber(string.match(redis.call('GET', KEYS[7]) or '0', '^%d+')))
redis.call('SET', KEYS[7], string.format('%.0f', last) .. ' ' .. ARGV[4], 'EX', ARGV[5])
return existed
