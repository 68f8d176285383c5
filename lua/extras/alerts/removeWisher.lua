#!lua flags=allow-oom
-- Removes profiles from the index of a product's variant, except recent entries, whose item may be on its way.
--
-- KEYS[1] index
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] minimum age of an entry, milliseconds; 0: any
-- ARGV[3..] profiles
--
-- Returns the number of removed profiles.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local least, gone = tonumber(ARGV[2]), 0
for i = 3, #ARGV do
  local noted = redis.call('HGET', KEYS[1], ARGV[i])
  if noted and (least == 0 or now - noted >= least) then
    gone = gone + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return gone
