#!lua flags=no-writes
-- Reads the items of a wishlist, a page a call. Items that are there from the first call to the last are in it, maybe
-- twice.
--
-- KEYS[1] profile   KEYS[2] items   KEYS[3] the identity that is checked, if any
--
-- ARGV[1] cursor; 0 at first
-- ARGV[2] items that a page may have, about
-- ARGV[3] the identity's link as the sender knows it, or empty   ARGV[4] generation of the profile, or empty; see redirect
-- ARGV[5] 1: of each item its first two lines alone
--
-- Returns {next cursor (0: that was all), field, item, field, item, ...}, or a redirect.

-- @include not-here
-- @include gone
-- @include redirect

local answer = redirect(KEYS[3] or '', ARGV[3], KEYS[1], ARGV[4])
if answer then
  return answer
end
local page = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
answer = page[2]
if ARGV[5] == '1' then
  for i = 2, #answer, 2 do
    answer[i] = string.match(answer[i], '^[^\n]*\n[^\n]*')
  end
end
table.insert(answer, 1, page[1])
return answer
