#!lua flags=no-writes
-- Reads a page of items, or counts them. Items that exist during all pages are returned at least once.
-- KEYS[1..2] profile, items
-- ARGV[1] cursor; 0 at first   ARGV[2] approximate page size
-- ARGV[3..4] session, link id: see includes/fence.lua
-- ARGV[5] `items`, `heads` for their first two lines, or `count`
-- Returns {next cursor or 0, field, item, ...} or the number of items; or an answer of includes/fence.lua.

-- @include profile-keys
-- @include not-here
-- @include fence

local answer = fence(KEYS[1], ARGV[3], ARGV[4])
if answer then
  return answer
elseif ARGV[5] == 'count' then
  return redis.call('HLEN', KEYS[2])
end
local page = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
answer = page[2]
if ARGV[5] == 'heads' then
  for i = 2, #answer, 2 do
    answer[i] = string.match(answer[i], '^[^\n]*\n[^\n]*')
  end
end
table.insert(answer, 1, page[1])
return answer
