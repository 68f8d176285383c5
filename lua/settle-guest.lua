-- Notes at a guest's door what its field in `ids` says: that it is known. From then on it goes by its day alone, and its
-- door is all that has to be looked at. It does not count as seen.
--
-- KEYS[1] ids of its bucket   KEYS[2] its door
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the guest, `s:<session>`
-- ARGV[3] seconds of a day
--
-- Returns 1, or 0 and nothing was done, where it is not at home by its field.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

if redis.call('HGET', KEYS[1], ARGV[2]) ~= '.' or redis.call('TYPE', KEYS[2]).ok == 'string' then
  return 0
end
redis.call('HSETNX', KEYS[2], '', math.floor(now[1] / ARGV[3]))
redis.call('HDEL', KEYS[1], ARGV[2])
return 1
