-- First step of a merge: moves what a profile has into its journal. The profile names its merge target from now on; so does
-- the link of a guest whose default profile it is.
--
-- KEYS[1] identity whose default profile it is   KEYS[2] the profile   KEYS[3] its members
-- KEYS[4..] each key that is moved, and its journal
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] generation of the profile; empty: it is a guest's   ARGV[6] owner of a linked one; its owner may be another one by now
-- ARGV[3] the target, `<profile> <generation> <nonce>`
-- ARGV[4] of a guest: the link from now on, `<profile> <generation> !<nonce>`   ARGV[5] of a guest: the identity, a member
--
-- Returns the target of the profile as it is now, `!` before it while the merge is not finished: of an earlier merge, too.
-- Empty, and nothing was done, where there is no such profile, or the guest has a link.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[2], 'target', 'generation', 'owner')
if facts[1] then
  return facts[1]
elseif ARGV[2] ~= (facts[2] or '') or ARGV[2] ~= '' and ARGV[6] ~= facts[3] then
  return ''
elseif ARGV[2] == '' and (redis.call('HEXISTS', KEYS[1], '') == 1 or redis.call('EXISTS', KEYS[1], KEYS[2]) == 0) then
  return ''
end
if ARGV[2] == '' then
  redis.call('HSET', KEYS[3], ARGV[5], '')
end
for i = 4, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    redis.call('RENAME', KEYS[i], KEYS[i + 1])
    redis.call('PERSIST', KEYS[i + 1])
  end
end
redis.call('HSET', KEYS[2], 'target', '!' .. ARGV[3])
if ARGV[2] == '' then
  redis.call('HSET', KEYS[1], '', ARGV[4])
end
return '!' .. ARGV[3]
