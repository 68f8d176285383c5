#!lua flags=no-writes
-- Says which products are on a wishlist: of exact products and variants in one HMGET; of products with any variant by their
-- fields, a page a call.
--
-- KEYS[1] profile   KEYS[2] items   KEYS[3] the identity that is checked, if any
--
-- ARGV[1] cursor of the fields; 0 at first, empty if no product is asked for with any variant
-- ARGV[2] fields of a page, about
-- ARGV[3] the identity's link as the sender knows it, or empty   ARGV[4] generation of the profile, or empty; see redirect
-- ARGV[5] number of exact fields, then those
-- ARGV[...] products with any variant, as fields without a variant
--
-- Returns {next cursor (0: that was all), field, creation line, field, creation line, ...}, or a redirect.

-- @include not-here
-- @include gone
-- @include redirect

local answer = redirect(KEYS[3] or '', ARGV[3], KEYS[1], ARGV[4])
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
