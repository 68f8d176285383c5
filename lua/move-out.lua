-- An identity leaves home: its counts become those of the room of its own profile, which has an owner from now on, and its
-- door has the empty field. An unknown identity becomes known by it. What a guest has does not end any more.
--
-- KEYS[1] its door   KEYS[2] room of its own profile   KEYS[3] its own profile
-- KEYS[4] merged: what came to that room; the identity is the first (see register.lua)   KEYS[5..] what else it has
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the identity, `s:<session>` or `c:<customer>`
-- ARGV[3] its field from now on, `<its own profile's id> <move>`, which its door has never had
-- ARGV[4] the owner, `c:<customer>`
-- ARGV[5] counts that one call may move one by one
--
-- Returns its field (string): where it had left before, too, the one that it got then; or 1 where more calls are needed.
-- (A room that is there already, and its door with counts: that is so only where a failover forgot one half of a
-- link. Then the counts are added, so many a call.)
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local field = redis.call('HGET', KEYS[1], '')
if field then
  return field
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('RENAME', KEYS[1], KEYS[2])
  else
    -- A table that was emptied in part may stay as large: then a scan comes back with nothing, and is not over.
    local cursor, page = '0', nil
    repeat
      cursor, page = unpack(redis.call('HSCAN', KEYS[1], cursor, 'COUNT', ARGV[5]))
    until #page > 0 or cursor == '0'
    for i = 1, #page, 2 do
      redis.call('HINCRBY', KEYS[2], page[i], page[i + 1])
      redis.call('HDEL', KEYS[1], page[i])
    end
    if redis.call('EXISTS', KEYS[1]) == 1 then
      return 1
    end
  end
end
local owner = redis.call('HGET', KEYS[3], 'owner')
if not owner or owner == '?' then
  redis.call('HSET', KEYS[3], 'owner', ARGV[4])
end
redis.call('HDEL', KEYS[3], 'known')
redis.call('HSET', KEYS[4], ARGV[2], '')
redis.call('HSET', KEYS[1], '', ARGV[3])
for i = 1, #KEYS do
  redis.call('PERSIST', KEYS[i])
end
return ARGV[3]
