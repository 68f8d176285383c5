#!lua flags=allow-oom
-- Adds a page of a session's frozen data to its customer, as far as the limits allow.
-- KEYS[1..4] customer's counts, profile, items, members
-- ARGV[1] deadline
-- ARGV[2..3] session's profile id, link id
-- ARGV[4..5] how far merged before and after this page, as in the member's note
-- ARGV[6..8] maximum of products, items, bytes of items; 0 means no limit
-- ARGV[9..11] product, item and bytes of that item for which room is kept; a name may be empty
-- ARGV[12..14] how many counts, items and facts there are
-- ARGV[15..] field, value, ... of the counts, of the items, of the facts; then members
-- Returns {how far merged, products left out, items left out, `new` or `known`}, also if another try has added the page; or
--   nil if the customer has no such session.
-- Errors: EXPIRED.

-- @include deadline

local note = redis.call('HGET', KEYS[4], ARGV[2])
local moved, head, state, merged = string.match(note or '', '^([a-z:]*)(%d%S* (%S+)[^\n]*)\n(.*)$')
if not note or string.sub(head, 1, #ARGV[3] + 1) ~= ARGV[3] .. ' ' then
  return nil
elseif moved ~= '' or merged ~= ARGV[4] then
  return { merged, 0, 0, state }
end

local max_products, max_items, max_bytes = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local product, item = ARGV[9], ARGV[10]
local first_item = 15 + 2 * ARGV[12]
local first_fact = first_item + 2 * ARGV[13]
local first_member = first_fact + 2 * ARGV[14]
local products_left_out, items_left_out = 0, 0

local products = redis.call('HLEN', KEYS[1])
local room = product ~= '' and 1 - redis.call('HEXISTS', KEYS[1], product) or 0
for i = 15, first_item - 1, 2 do
  if ARGV[i] == product then
    room = 0
  end
  if products + room < max_products or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    if redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) == tonumber(ARGV[i + 1]) then
      products = products + 1
    end
  else
    products_left_out = products_left_out + 1
  end
end

local count, bytes = redis.call('HLEN', KEYS[3]), tonumber(redis.call('HGET', KEYS[2], 'itemBytes') or 0)
local gained = 0
local held = redis.call('HSTRLEN', KEYS[3], item)
local item_room, bytes_room = item ~= '' and held == 0 and 1 or 0, math.max(0, ARGV[11] - held)
for i = first_item, first_fact - 1, 2 do
  local size = #ARGV[i + 1]
  if ARGV[i] == item and held == 0 then
    item_room, bytes_room = 0, math.max(0, bytes_room - size)
  end
  if redis.call('HEXISTS', KEYS[3], ARGV[i]) == 1 then
    size = 0 -- the customer's own item stays
  elseif
    (max_items > 0 and count + item_room >= max_items)
    or (max_bytes > 0 and bytes + gained + size + bytes_room > max_bytes)
  then
    items_left_out, size = items_left_out + 1, 0
  else
    redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
    count = count + 1
  end
  gained = gained + size
end
if gained > 0 then
  redis.call('HINCRBY', KEYS[2], 'itemBytes', gained)
end

for i = first_fact, first_member - 1, 2 do
  redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1])
end
for i = first_member, #ARGV do
  redis.call('HSETNX', KEYS[4], ARGV[i], '')
end
redis.call('HSET', KEYS[4], ARGV[2], head .. '\n' .. ARGV[5])
return { ARGV[5], products_left_out, items_left_out, state }
