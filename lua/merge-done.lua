-- Last step of a merge: what was moved aside is with the heir; forget it and say so on the tombstone.
--
-- KEYS[1] visits of the profile that was merged away (the tombstone)   KEYS[2..6] its journal
--
-- ARGV[1] the heir
--
-- Returns 1 where this call ended the merge, 0 where it was ended before.

if redis.call('GET', KEYS[1]) ~= '!' .. ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
redis.call('SET', KEYS[1], ARGV[1])
return 1
