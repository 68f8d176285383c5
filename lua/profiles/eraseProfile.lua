#!lua flags=allow-oom
-- Erases a linked profile, in one step. Every link to it is dead from now on. Its members stay under another key until what leads
-- there is gone, too; the generation stays for some time, so that what is late does not bring it back.
--
-- KEYS[1] profile   KEYS[2] its members   KEYS[3] what is left to do: these
-- KEYS[4] says that this generation was erased   KEYS[5..] what else it has
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] its generation   ARGV[3] seconds for which that stays   ARGV[4] its owner, where that matters; else empty
--
-- Among what is left to do, under the empty name: this moment, in milliseconds of this server's clock.
--
-- Returns 1; 0 and nothing was done, where it is gone.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local facts = redis.call('HMGET', KEYS[1], 'generation', 'owner', 'share')
if facts[1] ~= ARGV[2] or ARGV[4] ~= '' and facts[2] ~= ARGV[4] then
  return 0
end
redis.call('HSET', KEYS[2], facts[2], '')
if facts[3] then
  redis.call('HSET', KEYS[2], '#' .. facts[3], '')
end
redis.call('HSET', KEYS[2], '', now)
redis.call('RENAME', KEYS[2], KEYS[3])
redis.call('UNLINK', KEYS[1])
for i = 5, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
redis.call('SET', KEYS[4], '', 'EX', ARGV[3])
return 1
