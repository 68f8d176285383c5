-- Checks that a node has its marker (see src/redis/node-markers.ts) and accepts writes.
-- KEYS[1] marker
-- ARGV[1] deadline   ARGV[2] SHA-1 of its `salt`
-- Returns 1; 0 if the marker is missing or differs.
-- Errors: EXPIRED.

-- @include deadline

local marker = redis.call('HGET', KEYS[1], 'salt')
if not marker or redis.sha1hex(marker) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'written', '1')
return 1
