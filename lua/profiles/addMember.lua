#!lua flags=allow-oom
-- Makes a session a member of a customer, before the session gets its link: an erasure of the customer finds every
-- session. The note of a member is `<link id> <new|known> <session's name>`, a line feed, and how far the session's data
-- have been merged (see applyMerge.lua). `new`: the customer was unknown. A note that begins with `moved:` is of a
-- session that was merged and then moved to another customer. If the session comes back, it gets the same link id. `moved:`
-- is removed only after the link is written: until then, servers that remember the old link must be refused.
-- KEYS[1..4] customer's profile, members, counts, time of the last erasure
-- ARGV[1] deadline
-- ARGV[2..4] session's profile id, its name, the customer's name; a name is empty if it is unknown after a failover
-- ARGV[5] random part of a new link id
-- ARGV[6] the session's link id, if a failover may have lost the note; empty for a new link
-- ARGV[7] note to replace, because the session's link was lost, belongs to another login, or is back; or empty
-- ARGV[8] maximum of members, for a new link
-- Returns the note. ERASED if the customer was erased after it had ARGV[6].
-- Errors: EXPIRED, TOO_MANY, ERASED.

-- @include codes
-- @include deadline

local note = redis.call('HGET', KEYS[2], ARGV[2])
if note and note ~= ARGV[7] then
  return note
elseif note and ARGV[6] ~= '' and string.match(note, '^moved:(%S+)') == ARGV[6] then
  note = string.sub(note, #'moved:' + 1)
  redis.call('HSET', KEYS[2], ARGV[2], note)
  return note
elseif not note and ARGV[6] == '' and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[8]) then
  return TOO_MANY
end
local erased_at = tonumber(string.match(redis.call('GET', KEYS[4]) or '0', '^%d+'))
local last = tonumber(redis.call('HGET', KEYS[1], 'lastLink') or 0)
local id, at = ARGV[6], tonumber(string.match(ARGV[6], '^%d+'))
if not at then
  -- Link ids of a customer ascend, and are later than its last erasure, whatever the clock does.
  at = math.max(now, last + 1, erased_at + 1)
  id = string.format('%.0f.%s', at, ARGV[5])
elseif at <= erased_at then
  return ERASED
end
local state = redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 and 'new' or 'known'
note = id .. ' ' .. state .. ' ' .. ARGV[3] .. '\n'
redis.call('HSET', KEYS[2], ARGV[2], note)
redis.call('HSET', KEYS[1], 'lastLink', string.format('%.0f', math.max(at, last)))
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'name', ARGV[4])
end
return note
