#!lua flags=no-writes
-- Reads the size of each item of a wishlist.
-- KEYS[1] items
-- Returns {field, bytes, ...}.

local answer = {}
for i, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  answer[2 * i - 1], answer[2 * i] = field, redis.call('HSTRLEN', KEYS[1], field)
end
return answer
