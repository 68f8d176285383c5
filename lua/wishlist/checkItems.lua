#!lua flags=no-writes
-- Finds products on a wishlist: exact variants by HMGET, any variant of a product by paging.
-- KEYS[1..2] profile, items
-- ARGV[1] cursor; 0 at first, empty for exact variants only   ARGV[2] approximate page size
-- ARGV[3..4] session, link id: see includes/fence.lua
-- ARGV[5] number of exact fields, then these fields   ARGV[...] products, as fields without a variant
-- Returns {next cursor or 0, field, creation line, ...}, or an answer of includes/fence.lua.

-- @include profile-keys
-- @include not-here
-- @include fence

local answer = fence(KEYS[1], ARGV[3], ARGV[4])
if answer then
  return answer
end
answer = { '0' }
local function found(field, item)
  answer[#answer + 1], answer[#answer + 2] = field, string.match(item, '^[^\n]*')
end

local last = 5 + tonumber(ARGV[5])
if last > 5 then
  for i, item in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, 6, last))) do
    if item then
      found(ARGV[5 + i], item)
    end
  end
end
if ARGV[1] == '' then
  return answer
end

local wanted = {}
for i = last + 1, #ARGV do
  wanted[ARGV[i]] = true
end
local page = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
answer[1] = page[1]
for i = 1, #page[2], 2 do
  if wanted[string.match(page[2][i], '^[^:]*:')] then
    found(page[2][i], page[2][i + 1])
  end
end
return answer
