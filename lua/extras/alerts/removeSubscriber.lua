#!lua flags=allow-oom
-- Removes profiles from a variant's index. Recent entries stay, because their item may not be stored yet.
-- KEYS[1] index
-- ARGV[1] deadline   ARGV[2] minimum age, milliseconds; 0 means any   ARGV[3..] profiles
-- Returns how many were removed.
-- Errors: EXPIRED.

-- @include deadline

local least, gone = tonumber(ARGV[2]), 0
for i = 3, #ARGV do
  local noted = redis.call('HGET', KEYS[1], ARGV[i])
  if noted and (least == 0 or now - noted >= least) then
    gone = gone + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return gone
