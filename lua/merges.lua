#!lua flags=allow-cross-slot-keys,no-writes
-- Profiles of many buckets that were merged away in the last hours, or are being erased.
--
-- KEYS[1] merges of one of the buckets: names the node
--
-- ARGV[1...] merges of each bucket, all of them thought to be at this node
--
-- Returns a flat list: profiles, and for each key that is not at this node its number (integer).

local found = {}
for i = 1, #ARGV do
  local merges = redis.pcall('ZRANGE', ARGV[i], 0, -1)
  if merges.err then
    found[#found + 1] = i
  else
    for _, profile in ipairs(merges) do
      found[#found + 1] = profile
    end
  end
end
return found
