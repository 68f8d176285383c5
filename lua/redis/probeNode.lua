-- Checks whether a node still has its part of the deployment, and whether it accepts writes.
--
-- KEYS[1] hash with the node's mark: `meta`, or the node's own (src/redis/marks.ts)
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] expected SHA-1 of the mark's field `salt`
--
-- Returns 1 after a write to the mark; 0 and nothing was written if the mark is missing or another one.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

local mark = redis.call('HGET', KEYS[1], 'salt')
if not mark or redis.sha1hex(mark) ~= ARGV[2] then
  return 0
end
-- A write that changes nothing.
redis.call('HSET', KEYS[1], 'written', '1')
return 1
