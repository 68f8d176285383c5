-- Counts one visit under an operation's id, and logs it, or resets: the same id again answers as the first time and does
-- nothing.
--
-- KEYS[1] counts: of a linked profile, else the identity   KEYS[2] profile   KEYS[3] record of this operation (see fence.lua)
-- KEYS[4] the identity that is checked, if any   KEYS[5..] what else ends with a guest
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] product handle
-- ARGV[3] seconds for which the operation is remembered
-- ARGV[4] products that a profile may count
-- ARGV[5] the identity's link as the sender knows it, or empty   ARGV[6] generation of the profile, or empty; see redirect
-- ARGV[7] 1 for a visit, 0 for a reset   ARGV[8] seconds for which a guest stays after its last write; 0: for ever
-- ARGV[9..12] where visits are logged: stream; its state; its high-water mark; the visit's line (see visits.lua)
--
-- Returns the count after this (integer; in a list with 1 behind it if it was not logged because of the mark); a redirect and
-- nothing was done; or `-`: the operation is done at another place now (its record was fenced).
-- Errors: EXPIRED -1, TOO_MANY -6, NO_STREAM -7 (the stream is not at this node); nothing was done.

-- @include deadline
local retention = tonumber(ARGV[8])
-- @include log-visits
-- @include retain
-- @include known
-- @include not-here
-- @include gone
-- @include redirect

local count = redis.call('GET', KEYS[3])
if count then
  return count == '-' and count or tonumber(count)
end
local answer = redirect(KEYS[4] or '', ARGV[5], KEYS[2], ARGV[6])
if answer then
  return answer
end
local is_guest = ARGV[6] == ''
if ARGV[7] == '0' then
  if redis.call('HDEL', KEYS[1], ARGV[2]) == 1 and is_guest then
    make_known(KEYS[1], KEYS[2])
  end
  if is_guest then
    retain(KEYS[1], { 'v', 'p' }, KEYS[4])
  end
  redis.call('SET', KEYS[3], 0, 'EX', ARGV[3])
  return 0
end
local waiting = ARGV[9] and waiting_in(ARGV[9], ARGV[10])
if ARGV[9] and not waiting then
  return -7
end
count = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
if count == 1 and redis.call('HLEN', KEYS[1]) > tonumber(ARGV[4]) then
  redis.call('HDEL', KEYS[1], ARGV[2])
  return -6
end
if is_guest then
  retain(KEYS[1], { 'v' }, KEYS[4])
end
redis.call('SET', KEYS[3], count, 'EX', ARGV[3])
if waiting and not log_visits(ARGV[9], ARGV[10], ARGV[11], waiting, ARGV[12], 1) then
  return { count, 1 }
end
return count
