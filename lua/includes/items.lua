-- ARGV[7] guest's TTL, seconds   ARGV[8] maximum items of a profile; 0 means no limit
-- ARGV[9] maximum of the profile's `itemBytes`; 0 means no limit
-- An operation `op` has `profile`, `session`, `link_id`, `items` and, if it is of one item, `field`.
-- @include codes
local retention, max_items, max_bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
-- @include profile-keys
-- @include retain
-- @include registered
-- @include not-here
-- @include fence

-- Sets `there` to the stored item, and `facts` to `itemBytes` and `fact` of the profile. Returns an answer if the
-- operation can't be done.
local function read_item(op, fact)
  local answer = fence(op.profile, op.session, op.link_id)
  if answer then
    return retain_link(op.profile, answer)
  elseif not are_here(op.profile) then
    return NOT_HERE
  end
  op.facts = redis.pcall('HMGET', op.profile, 'itemBytes', fact)
  op.there = op.field and redis.pcall('HGET', op.items, op.field)
  local failed = op.facts.err and op.facts or type(op.there) == 'table' and op.there
  return failed and answer_of(failed)
end

local function gained_by(op, item)
  return #item - #(op.there or '')
end

-- In a dry run, `op.tried` counts the items that would have been stored.
local function is_too_much(op, item)
  local gained = gained_by(op, item)
  if max_items > 0 and not op.there and redis.call('HLEN', op.items) + (op.tried or 0) >= max_items then
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
