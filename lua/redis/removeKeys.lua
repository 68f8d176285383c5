-- Removes keys of one slot in one step.
-- KEYS[1..] keys
-- ARGV[1] deadline
-- Returns how many were removed.
-- Errors: EXPIRED -1.

-- @include deadline

local removed = 0
for i = 1, #KEYS do
  removed = removed + redis.call('UNLINK', KEYS[i])
end
return removed
