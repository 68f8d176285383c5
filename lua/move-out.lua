-- An identity leaves home: its counts become those of the room of its own profile, which has an owner from now on,
-- and its door a marker. An unknown identity becomes known by it.
--
-- KEYS[1] ids of its bucket   KEYS[2] its door   KEYS[3] room of its own profile   KEYS[4] its own profile
-- KEYS[5] merged: what came to that room; the identity is the first (see register.lua)
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the identity, `s:<session>` or `c:<customer>`
-- ARGV[3] its own profile's id
-- ARGV[4] the owner, `c:<customer>`
-- ARGV[5] counts that one call may move one by one
--
-- Returns its field (string), `<room> <move>`: where it had left before, too; or 1 where more calls are needed.
-- (A room that is there already, and its door with counts: that is so only where a failover forgot one half of a
-- link. Then the counts are added, so many a call.)
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local field = redis.call('HGET', KEYS[1], ARGV[2])
if field and field ~= '.' then
  return field
end
-- When a guest was seen does not matter of a customer. (A marker without a field is what a failover left.)
redis.pcall('HDEL', KEYS[2], '')
if redis.call('EXISTS', KEYS[2]) == 1 then
  if redis.call('EXISTS', KEYS[3]) == 0 then
    redis.call('RENAME', KEYS[2], KEYS[3])
  else
    -- A table that was emptied in part may stay as large: then a scan comes back with nothing, and is not over.
    local cursor, page = '0', nil
    repeat
      cursor, page = unpack(redis.call('HSCAN', KEYS[2], cursor, 'COUNT', ARGV[5]))
    until #page > 0 or cursor == '0'
    for i = 1, #page, 2 do
      redis.call('HINCRBY', KEYS[3], page[i], page[i + 1])
      redis.call('HDEL', KEYS[2], page[i])
    end
    if redis.call('EXISTS', KEYS[2]) == 1 then
      redis.call('HSET', KEYS[1], ARGV[2], '.')
      return 1
    end
  end
end
local owner = redis.call('HGET', KEYS[4], 'owner')
if not owner or owner == '?' then
  redis.call('HSET', KEYS[4], 'owner', ARGV[4])
end
redis.call('HSET', KEYS[5], ARGV[2], '')
field = ARGV[3] .. ' 1'
redis.call('HSET', KEYS[1], ARGV[2], field)
redis.call('SET', KEYS[2], '')
return field
