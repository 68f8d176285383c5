#!lua flags=no-writes
-- Reads the items of a wishlist, a page a call. Items that are there from the first call to the last are in it, maybe
-- twice.
--
-- KEYS[1] profile   KEYS[2] items
--
-- ARGV[1] cursor; 0 at first
-- ARGV[2] items that a page may have, about
--
-- Returns {next cursor (0: that was all), field, item, field, item, ...}, or the heir's id (string) where the profile
-- was merged away.

local heir = redis.call('HGET', KEYS[1], 'heir')
if heir then
  return heir
end
local page = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local answer = page[2]
table.insert(answer, 1, page[1])
return answer
