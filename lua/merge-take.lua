-- First step of a merge: moves a room's belongings aside, into its journal, and leaves a tombstone that names the heir.
--
-- KEYS[1] profile   KEYS[2] room   KEYS[3] items   KEYS[4] merged
-- KEYS[5..8] journal: of the room, items, profile, merged   KEYS[9] merges of the bucket
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] the profile that is merged away
-- ARGV[3] the heir
-- ARGV[4] nonce of this merge
-- ARGV[5] seconds for which the bucket remembers a merge
--
-- The tombstone is the field `heir` of the profile, with `!` before the id until the heir has everything. The bucket
-- remembers its merges for that long: profile -> milliseconds.
--
-- Returns {heir, nonce} of the tombstone: of the first merge, whatever ARGV[3] and ARGV[4] say. {`@`, empty}, and nothing
-- was done, where it is being erased, or is no room (any more).
-- Errors: EXPIRED -1; nothing was done.

local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
if ms > tonumber(ARGV[1]) then
  return -1
end

local tombstone = redis.call('HMGET', KEYS[1], 'heir', 'nonce', 'owner')
if tombstone[1] then
  return { tombstone[1], tombstone[2] or '' }
end
if not tombstone[3] then
  return { '@', '' }
end
-- A journal that is there is of an earlier merge which a failover forgot here; its heir has it.
redis.call('UNLINK', KEYS[5], KEYS[6], KEYS[7], KEYS[8])
for from, to in pairs({ [2] = 5, [3] = 6, [1] = 7, [4] = 8 }) do
  if redis.call('EXISTS', KEYS[from]) == 1 then
    redis.call('RENAME', KEYS[from], KEYS[to])
  end
end
redis.call('HSET', KEYS[1], 'heir', '!' .. ARGV[3], 'nonce', ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[9], '-inf', ms - ARGV[5] * 1000)
redis.call('ZADD', KEYS[9], ms, ARGV[2])
redis.call('EXPIRE', KEYS[9], ARGV[5])
return { '!' .. ARGV[3], ARGV[4] }
