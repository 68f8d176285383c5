#!lua flags=allow-oom
-- Begins a merge: freezes a guest's data and links the session. Or reads what an earlier try has frozen.
-- KEYS[1..5] session's counts, profile, items, members, frozen counts
-- ARGV[1] deadline
-- ARGV[2] link without its state: `<customer's profile> <link id>`
-- ARGV[3] TTL of the frozen data, ms
-- ARGV[4] fields per page
-- ARGV[5] 1 to begin the merge if the session is a guest; otherwise empty
-- Returns {facts, members, first page of the counts, first page of the items}, the pages as HSCAN replies; empty unless the
--   session is or was being merged under this link.
-- Errors: EXPIRED.

-- @include deadline

local link = redis.call('HGET', KEYS[1], '')
local target = redis.call('HGET', KEYS[2], 'target')
if not link and not target and ARGV[5] == '1' and redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('RENAME', KEYS[1], KEYS[5])
  end
  link, target = ARGV[2] .. ' merging', ARGV[2]
  redis.call('HSET', KEYS[1], '', link)
  redis.call('HSET', KEYS[2], 'target', target)
  redis.call('PERSIST', KEYS[2])
  for i = 3, 5 do
    redis.call('PEXPIRE', KEYS[i], ARGV[3])
  end
end
if target ~= ARGV[2] or string.sub(link or '', 1, #target + 1) ~= target .. ' ' then
  return {}
end
return {
  redis.call('HGETALL', KEYS[2]),
  redis.call('HGETALL', KEYS[4]),
  redis.call('HSCAN', KEYS[5], 0, 'COUNT', ARGV[4]),
  redis.call('HSCAN', KEYS[3], 0, 'COUNT', ARGV[4]),
}
