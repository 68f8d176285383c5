-- Counts one visit under an operation's id, and logs it, or resets: the same id again answers as the first time and does
-- nothing.
--
-- KEYS[1] door or room that has the counts; a door that was left has the empty field
-- KEYS[2] profile of the room, or of the door
-- KEYS[3] record of this operation at this place (see fence.lua)
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] product handle
-- ARGV[3] seconds for which the operation is remembered
-- ARGV[4] products that a profile may count
-- ARGV[5] 1 where it is at a room, 0 at a door
-- ARGV[6] 1 for a visit, 0 for a reset   ARGV[7] seconds for which a guest stays after its last write; 0: for ever
-- ARGV[8..11] where visits are logged: stream; its state; its high-water mark; the visit's line (see visits.lua)
--
-- Returns the count after this (integer; in a list with 1 behind it where it was not logged because of the mark,
-- with -1 where the stream is not at this node), or a string and nothing was done: `@` where the operation is no
-- longer done here (the identity left its door, a retry took it elsewhere, or the room is erased), else the heir's id, `!`
-- before it while the merge is under way.
-- Errors: EXPIRED -1, TOO_MANY -6; nothing was done.

-- @include deadline
-- @include log-visits
-- @include retain
-- @include known

local count = redis.call('GET', KEYS[3])
if count then
  return count == '-' and '@' or tonumber(count)
end
local facts = redis.call('HMGET', KEYS[2], 'heir', 'owner')
if facts[1] or ARGV[5] == '1' and not facts[2] then
  return facts[1] or '@'
end
if redis.call('HEXISTS', KEYS[1], '') == 1 then
  return '@'
end
local is_home = ARGV[5] == '0'
if ARGV[6] == '0' then
  if redis.call('HDEL', KEYS[1], ARGV[2]) == 1 and is_home then
    make_known(KEYS[1], KEYS[2])
  end
  if is_home then
    retain(KEYS[1], tonumber(ARGV[7]))
  end
  redis.call('SET', KEYS[3], 0, 'EX', ARGV[3])
  return 0
end
count = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
if count == 1 and redis.call('HLEN', KEYS[1]) > tonumber(ARGV[4]) then
  redis.call('HDEL', KEYS[1], ARGV[2])
  return -6
end
if is_home then
  retain(KEYS[1], tonumber(ARGV[7]))
end
redis.call('SET', KEYS[3], count, 'EX', ARGV[3])
local missed = ARGV[8] and log_visits(ARGV[8], ARGV[9], ARGV[10], ARGV[11], 1)
return missed and { count, missed } or count
