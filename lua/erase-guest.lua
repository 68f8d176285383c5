-- Erases what a profile that is no room has, in one step: the counts at its door while its identity is at home, and all
-- else. The identity's name need not be known. For the erasure of a whole shop.
--
-- KEYS[1] profile   KEYS[2] door   KEYS[3..] whatever else there may be of it
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] 1 also where its identity is away, or it is a tombstone: what it leads to is gone
--
-- Returns its share code or empty. 0 where its identity is away, and 1 where it is a room or a tombstone; then nothing
-- was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[1], 'owner', 'heir', 'share')
if facts[1] or facts[2] and (ARGV[2] ~= '1' or facts[2] == '@') then
  return 1
end
if ARGV[2] ~= '1' and redis.call('HEXISTS', KEYS[2], '') == 1 then
  return 0
end
redis.call('UNLINK', KEYS[2])
-- Most guests have counts and nothing else: one look in place of an UNLINK for each key.
if redis.call('EXISTS', KEYS[1], unpack(KEYS, 3)) > 0 then
  redis.call('UNLINK', KEYS[1])
  for i = 3, #KEYS do
    redis.call('UNLINK', KEYS[i])
  end
end
return facts[3] or ''
