-- Meets an identity: says whether it is known, and notes that a guest who is at home was seen.
--
-- KEYS[1] ids of its bucket   KEYS[2] its door
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the identity, `s:<session>` or `c:<customer>`
-- ARGV[3] seconds of a day; empty where it is not noted that it was seen
--
-- Returns 1 where it is at home, 2 where it is elsewhere, 0 where it is unknown.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
-- @include note-seen

local field = redis.call('HGET', KEYS[1], ARGV[2])
local kind = redis.call('TYPE', KEYS[2]).ok
if field and field ~= '.' or kind == 'string' then
  return 2
elseif not field and kind == 'none' then
  return 0
end
if ARGV[3] ~= '' then
  note_seen(KEYS[2], KEYS[1], ARGV[2], field, ARGV[3], now[1])
end
return 1
