-- Looks whether a node still holds its part of the deployment, and whether it takes writes.
--
-- KEYS[1] hash with the node's mark: `meta`, or a mark of its own (src/redis/marks.ts)
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] SHA-1 of the mark's field `salt`, as it should be
--
-- Returns 1 where the mark is there, and was written to; 0 where it is gone or another one, and nothing was written.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local mark = redis.call('HGET', KEYS[1], 'salt')
if not mark or redis.sha1hex(mark) ~= ARGV[2] then
  return 0
end
-- A write, though it changes nothing.
redis.call('HSET', KEYS[1], 'written', '1')
return 1
