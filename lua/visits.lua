-- Counts, reads and resets visits, and says where identities are: a batch of operations in one call. The visits that
-- it counts are logged, as one entry of a stream.
--
-- An identity has a door: a hash with the counts of its own profile, product -> count. While it is at home a visit is one
-- HINCRBY. Once it was linked, the door has one field, with the empty name: `<room> <move>` (its moves so far), and the
-- counts are in that room, which several identities may share. A room is never a door. So a first visit of a product may
-- be one of an identity that is away: only then the field is looked for.
--
-- A guest (a session at home) and all that it has ends some time after its last write; see includes/retain.lua.
--
-- KEYS[1]    lane: hash tag of this batch, name of the sender's lane
--            An operation that is done alone has its keys here, so that it is done where all of them are; a batch names none
--            of its operations' (allow-cross-slot-keys)
--
-- ARGV[1]    sequence number of the batch in its lane; 0: the batch only reads, nothing is recorded
-- ARGV[2]    deadline, in milliseconds of this server's clock
-- ARGV[3]    seconds for which the lane remembers its last batch
-- ARGV[4]    products that a profile may count
-- ARGV[5]    seconds for which a guest stays after its last write; 0: for ever
-- ARGV[6]    the operations, in lines (keys, ids and handles have no control characters): a letter for the kind with
--            the key behind it, then what is looked for there, then for some kinds one or three lines more
--              v visit, c visit and answer the count, w and x the same of a customer; g get the count; d reset: door; handle
--              p where is the identity, r the same and make it known: door; nothing
--              V C G D the same as v c g d, at a room: room; handle; profile of the room; door of the identity, or empty
--                where that was asked before; where it is not empty: the field that the sender expects there
-- ARGV[7..10] where visits are logged: stream; its state; its high-water mark: waiting bytes that may not be passed; a
--            line for each v c w x V C, in their order. On a cluster the stream need not be at this node
-- ARGV[7]    of an operation that is done alone: lane; it is not logged, since its stream may be elsewhere
--
-- Returns a flat list {i, answer, i, answer, ...} of the operations that have one:
--   a count (integer) for c, x, C, g, G; TOO_MANY -6 for a visit: this would be one product too many
--   `@<field>`: the identity is elsewhere; without the field (empty) where the sender has to ask for it
--   the heir's id, `!` before it while the merge is under way: the room was merged away; `@`: it is being erased, or
--     it is no room (any more): each has an owner
--   for p and r the field, or `.` where it is at home; for p empty where the identity is unknown
--   `~`: on a cluster, a key is not at this node, or it is on the move
-- Where an operation is elsewhere, or too many, nothing was done. Those missing from the list were done.
-- The number 0 in place of an operation's: so many visits were counted and not logged; below 0 where the stream is not
-- at this node.
-- Errors: EXPIRED -1 (deadline passed), SUPERSEDED -2 (the lane is past this batch); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

-- What is done alone is done where its keys are. Its lane is there, too, or nowhere, save where its slot is leaving.
local is_alone = #ARGV == 7
local lane = is_alone and ARGV[7] or KEYS[1]
if is_alone and type(redis.pcall('EXISTS', lane)) == 'table' then
  return '~'
end
-- @include lane
-- @include log-visits
-- @include retain
-- @include known
-- @include without
-- @include not-here

local max, retention, text, type = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], type
-- @include lines
local VISITS = { v = true, c = true, w = true, x = true, V = true, C = true }
local TELLS = { c = true, x = true, C = true }

-- p and r. Every key is read before one is written, so `~` means that nothing was done.
local function where(kind, door)
  local field = redis.pcall('HGET', door, '')
  if type(field) == 'table' then
    return answer_of(field)
  elseif field then
    return field
  end
  local profile = key_of(door, 'p')
  local there = redis.pcall('EXISTS', profile)
  if type(there) == 'table' then
    return answer_of(there)
  end
  if kind == 'p' then
    return is_known(door, profile) and '.' or ''
  end
  make_known(door, profile)
  retain(door, retention)
  return '.'
end

-- A first visit of a product at a door that has been counted: what it answers instead, where it is taken back.
local function taken_back(door, handle)
  local field = redis.call('HGET', door, '')
  if not field and redis.call('HLEN', door) <= max then
    return nil
  end
  redis.call('HDEL', door, handle)
  return field and '@' .. field or -6
end

-- d, at home. What a slot on the move may refuse comes before what is written: a last count takes its key along.
local function reset(door, handle)
  local field = redis.pcall('HGET', door, '')
  if type(field) == 'table' then
    return answer_of(field)
  elseif field then
    return '@' .. field
  end
  if redis.call('HEXISTS', door, handle) == 0 then
    return nil
  end
  if redis.call('HLEN', door) == 1 then
    -- Its last count goes, and it stays known.
    local known = redis.pcall('HSET', key_of(door, 'p'), 'known', '1')
    if type(known) == 'table' then
      return answer_of(known)
    end
  end
  redis.call('HDEL', door, handle)
  retain(door, retention)
end

-- Where else to ask than at a room, or nil.
local function elsewhere(profile, door, expected)
  if door ~= '' then
    local field = redis.pcall('HGET', door, '')
    if type(field) == 'table' then
      return answer_of(field)
    elseif field ~= expected then
      return '@' .. (field or '')
    end
  end
  local facts = redis.pcall('HMGET', profile, 'heir', 'owner')
  return facts.err and answer_of(facts) or facts[1] or not facts[2] and '@'
end

-- V C G D.
local function at_room(kind, key, handle, answer)
  if answer then
    return answer
  end
  local result
  if kind == 'G' then
    result = redis.pcall('HGET', key, handle)
    return type(result) == 'table' and answer_of(result) or tonumber(result) or 0
  elseif kind == 'D' then
    result = redis.pcall('HDEL', key, handle)
    return type(result) == 'table' and answer_of(result) or nil
  end
  result = redis.pcall('HINCRBY', key, handle, '1')
  if type(result) == 'table' then
    return answer_of(result)
  elseif result == 1 and redis.call('HLEN', key) > max then
    redis.call('HDEL', key, handle)
    return -6
  end
  return kind == 'C' and result or nil
end

-- g, at home.
local function read(door, handle)
  local both = redis.pcall('HMGET', door, handle, '')
  if both.err then
    return answer_of(both)
  end
  return both[2] and '@' .. both[2] or tonumber(both[1]) or 0
end

-- An operation's answer, or nil. `result`: of HINCRBY, where it failed or is 1; the lines after its second one are taken.
local function act(kind, key, rest, result)
  if result then
    if type(result) == 'table' then
      return answer_of(result)
    end
    local other = taken_back(key, rest)
    if not other and (kind == 'v' or kind == 'c') then
      retain(key, retention)
    end
    return other or TELLS[kind] and result or nil
  elseif kind == 'p' or kind == 'r' then
    return where(kind, key)
  elseif kind == 'g' then
    return read(key, rest)
  elseif kind == 'd' then
    return reset(key, rest)
  end
  local profile, door = line(), line()
  return at_room(kind, key, rest, elsewhere(profile, door, door ~= '' and line() or ''))
end

local least, most = retention, retention + DAY_MS / 1000
if retention == 0 then
  least, most = -1, -1
end
local answers, n, i = {}, 0, 0
-- Visits so far, those that were not counted, and which.
local visits, uncounted, skipped = 0, 0, nil
while at <= #text do
  i = i + 1
  local middle = find(text, '\n', at, true)
  local stop = find(text, '\n', middle + 1, true)
  local kind, key, rest = sub(text, at, at), sub(text, at + 1, middle - 1), sub(text, middle + 1, stop - 1)
  at = stop + 1
  local is_guest = kind == 'v' or kind == 'c'
  local result, answer = (is_guest or kind == 'w' or kind == 'x') and redis.pcall('HINCRBY', key, rest, '1'), nil
  if result and type(result) == 'number' and result > 1 then
    visits = visits + 1 -- nearly all
    if is_guest then
      local ttl = redis.call('TTL', key)
      if ttl < least or ttl > most then
        retain(key, retention)
      end
    end
    answer = TELLS[kind] and result
  else
    answer = act(kind, key, rest, result)
    if VISITS[kind] then
      visits = visits + 1
      if answer and (type(answer) ~= 'number' or answer < 0) then
        uncounted, skipped = uncounted + 1, skipped or {}
        skipped[visits] = true
      end
    end
  end
  if answer then
    answers[n + 1], answers[n + 2] = i, answer
    n = n + 2
  end
end

local counted = visits - uncounted
if ARGV[7] and counted > 0 then
  local lines = ARGV[10]
  if skipped then
    lines = without(lines, skipped)
  end
  local missed = is_alone and -counted or log_visits(ARGV[7], ARGV[8], ARGV[9], lines, counted)
  if missed then
    answers[n + 1], answers[n + 2] = 0, missed
  end
end

return remembered(answers)
