#!lua flags=allow-oom
-- Takes a session from an erased customer, with the data that the customer had or was getting from it.
-- KEYS[1..6] session's counts, profile, items, members, frozen counts, time of the last erasure
-- ARGV[1] deadline
-- ARGV[2] link without its state: `<customer's profile> <link id>`
-- ARGV[3] time of the erasure, by the clocks of `serve`
-- ARGV[4] TTL of that time, seconds
-- Returns 1.
-- Errors: EXPIRED.

-- @include deadline

local link = redis.call('HGET', KEYS[1], '') or ''
local target = redis.call('HGET', KEYS[2], 'target')
if string.sub(link, 1, #ARGV[2] + 1) == ARGV[2] .. ' ' then
  redis.call('UNLINK', KEYS[1])
  redis.call('SET', KEYS[6], '0 ' .. ARGV[3], 'EX', ARGV[4])
end
if target == ARGV[2] then
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
end
return 1
