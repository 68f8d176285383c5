-- An operation `op` has `profile`, `items`, `field`, `there` (the stored item) and `facts[1]` (the profile's `itemBytes`).

local function gained_by(op, item)
  return #item - #(op.there or '')
end

-- A maximum of 0 means no limit. `tried` counts items that a dry run would have stored.
local function is_too_much(op, item, max_items, max_bytes, tried)
  local gained = gained_by(op, item)
  if max_items > 0 and not op.there and redis.call('HLEN', op.items) + (tried or 0) >= max_items then
    return true
  end
  return max_bytes > 0 and gained > 0 and (op.facts[1] or 0) + gained > max_bytes
end

local function store_item(op, item)
  local gained = gained_by(op, item)
  redis.call('HSET', op.items, op.field, item)
  op.had_all = op.there and op.facts[1]
  if gained ~= 0 then
    redis.call('HINCRBY', op.profile, 'itemBytes', gained)
  end
end

local WISHLIST, PROFILE = { 'p', 'i' }, { 'p' }

-- Call after a write.
local function keep(op, may_be_first)
  if may_be_first and not op.had_all then
    register(key_of(op.profile, 'v'), op.profile)
  end
  retain(op.profile, op.had_all and PROFILE or WISHLIST)
end
