#!lua flags=allow-oom
-- Queues erasures of rows up to a moment. Later rows may belong to new visitors with the same ids.
-- KEYS[1] erasures: name -> `<moment by the clocks of serve> <moment by this Redis's clock>`, ms since 1970
-- ARGV[1] deadline   ARGV[2] the moment by the clocks of `serve`   ARGV[3] its age, ms
-- ARGV[4..] names: profiles, identities, or `*`
-- Returns 1.
-- Errors: EXPIRED.

-- @include deadline

for i = 4, #ARGV do
  -- A step of an earlier erasure may come late.
  local sent, at = string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '0 0', '^(%d+) (%d+)$')
  sent, at = math.max(tonumber(ARGV[2]), tonumber(sent)), math.max(now - ARGV[3], tonumber(at))
  redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f %.0f', sent, at))
end
return 1
