-- Checks that a node has its part of the deployment, and accepts writes.
-- KEYS[1] hash with its mark, see src/redis/marks.ts
-- ARGV[1] deadline   ARGV[2] SHA-1 of the mark's `salt`
-- Returns 1; 0 if the mark is missing or differs.
-- Errors: EXPIRED -1.

-- @include deadline

local mark = redis.call('HGET', KEYS[1], 'salt')
if not mark or redis.sha1hex(mark) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'written', '1')
return 1
