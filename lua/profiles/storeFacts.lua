-- Stores facts of a visitor in the profile, and the digest of an e-mail address among its members, by which an erasure finds the
-- index of addresses. Creates an unknown visitor.
--
-- KEYS[1] profile   KEYS[2] its members   KEYS[3] the identity to check, if any
-- KEYS[4..] further keys that expire with a guest
--
-- ARGV[1]  deadline, in milliseconds of this server's clock
-- ARGV[2]  the identity's expected link, or empty   ARGV[3] generation of the profile, or empty; see redirect
-- ARGV[4]  TTL of a guest after its last write, seconds; 0: for ever
-- ARGV[5]  now, ISO 8601
-- ARGV[6]  `@` and the keyed digest of an address that leads here, or empty
-- ARGV[7]  the identity whose default profile it is, or empty: stored with the digest
-- ARGV[8..] field, value, ...
--
-- Returns 1, or a redirect and nothing was done.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline
local retention = tonumber(ARGV[4])
-- @include retain
-- @include known
-- @include not-here
-- @include gone
-- @include redirect

local answer = redirect(KEYS[3] or '', ARGV[2], KEYS[1], ARGV[3])
if answer then
  return answer
end
redis.call('HSETNX', KEYS[1], 'createdAt', ARGV[5])
redis.call('HSET', KEYS[1], 'updatedAt', ARGV[5], unpack(ARGV, 8))
redis.call('HDEL', KEYS[1], 'known')
if ARGV[6] ~= '' then
  redis.call('HSETNX', KEYS[2], ARGV[6], ARGV[7])
end
if ARGV[3] == '' then
  retain(KEYS[1], { 'p', 'g' }, KEYS[3])
end
return 1
