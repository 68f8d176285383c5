-- Counts, reads and resets visits, and says where identities are: a batch of operations in one call. The visits that
-- it counts are logged, as one entry of a stream.
--
-- An identity has a door: the counts of its own profile. While it is at home they are a hash there, and a visit is
-- one HINCRBY. Once it was linked, the door is a string (a marker), its field in `ids` names the room that it
-- belongs to, and the counts are in that room, which several identities may share. A room is never a door.
--
-- KEYS[1]    lane: hash tag of this batch, name of the sender's lane
-- KEYS[2..]  not read here. On a cluster a batch of one slot names all its keys, so that it is redirected as a
--            whole while that slot moves; a batch of a node's many slots names none (allow-cross-slot-keys)
--
-- ARGV[1]    sequence number of the batch in its lane; 0: the batch only reads, nothing is recorded
-- ARGV[2]    deadline, in milliseconds of this server's clock
-- ARGV[3]    seconds for which the lane remembers its last batch
-- ARGV[4]    products that a profile may count
-- ARGV[5]    the operations, in lines (keys, ids and handles have no control characters): a letter for the kind with
--            the key behind it, then what is looked for there, then for some kinds two or four lines more
--              v visit, c visit and answer the count, g get the count: door; handle
--              d reset: door; handle; ids; the identity, `s:<session>` or `c:<customer>`
--              n visit of one who may be unknown: door; handle; ids; the identity; seconds of a day
--              p where is the identity, r the same and make it known: ids; the identity; door; for r seconds of a day,
--                empty where it is not noted that it was seen
--              V C G D the same as v c g d, at a room: room; handle; profile of the room; the identity, or empty where
--                its door was asked before; where it is not empty: ids; the room that the sender expects
-- ARGV[6..9] where visits are logged: stream; its state; its high-water mark: waiting bytes that may not be passed; a
--            line for each v c n V C, in their order. On a cluster the stream need not be at this node
--
-- The field of an identity in `ids` is `.` (at home, known without counts) or `<room> <move>` (its moves so far).
--
-- Returns a flat list {i, answer, i, answer, ...} of the operations that have one:
--   a count (integer) for c, C, g, G, n; TOO_MANY -6 for v, V, c, C, n: this would be one product too many
--   `@<field>`: the identity is elsewhere; without the field (empty) where the sender has to ask for it
--   the heir's id, `!` before it while the merge is under way: the room was merged away; `@`: it is being erased, or
--     it is no room (any more): each has an owner
--   for p and r the field; for p empty where the identity is unknown
--   `~`: on a cluster, a key is not at this node, or it is on the move
-- Where an operation is elsewhere, or too many, nothing was done. Those missing from the list were done.
-- The number 0 in place of an operation's: so many visits were counted and not logged; below 0 where the stream is not
-- at this node.
-- Errors: EXPIRED -1 (deadline passed), SUPERSEDED -2 (the lane is past this batch); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

-- @include lane
-- @include log-visits
-- @include note-seen
-- @include without

local text, max, type = ARGV[5], tonumber(ARGV[4]), type
-- @include lines
local VISITS = { v = true, c = true, n = true, V = true, C = true }

-- An error as an operation's answer: WRONGTYPE is the door's marker. What is not known is passed on; raising it would
-- leave half a batch done.
local function answer_of(failed)
  if find(failed.err, 'WRONGTYPE', 1, true) then
    return '@'
  end
  return find(failed.err, 'non local key', 1, true) and '~' or failed
end

-- p and r. Every key is read before one is written, so `~` means that nothing was done.
local function where(kind, ids, identity, door, day_s)
  local field = redis.pcall('HGET', ids, identity)
  if type(field) == 'table' then
    return answer_of(field)
  elseif field and (field ~= '.' or day_s == '') then
    return field
  end
  local counts = redis.pcall('TYPE', door)
  if counts.err then
    return answer_of(counts)
  elseif kind == 'p' then
    return counts.ok ~= 'none' and '.' or ''
  elseif day_s ~= '' and counts.ok ~= 'string' then
    note_seen(door, ids, identity, field, day_s, time[1])
  elseif counts.ok == 'none' then
    redis.call('HSET', ids, identity, '.')
  end
  return '.'
end

-- Whether there are more products than there may be. The day is none.
local function is_over(key, fields)
  if fields == max + 1 then
    fields = fields - redis.call('HEXISTS', key, '')
  end
  return fields > max
end

-- n, counted: its answer. One whose door has other fields is at home, and known; `fields` are asked for at a first count.
local function met(count, fields, door, handle, ids, identity, day_s)
  local field, day = false, false
  if fields == 1 then
    field = redis.pcall('HGET', ids, identity)
    if field and field ~= '.' then
      redis.call('HDEL', door, handle)
      return type(field) == 'table' and answer_of(field) or '@' .. field
    end
  else
    day = redis.call('HGET', door, '')
    field = not day and redis.pcall('HGET', ids, identity) == '.'
  end
  if tonumber(day) ~= math.floor(time[1] / day_s) then
    note_seen(door, ids, identity, field, day_s, time[1])
  end
  return count
end

-- n that was not counted: where else to ask.
local function away(failed, ids, identity)
  local answer = answer_of(failed)
  local field = answer == '@' and redis.pcall('HGET', ids, identity)
  return type(field) == 'string' and field ~= '.' and '@' .. field or answer
end

-- Where else to ask than at a room, or nil.
local function elsewhere(profile, identity, ids, room)
  if ids then
    local field = redis.call('HGET', ids, identity) or ''
    if string.sub(field, 1, #room + 1) ~= room .. ' ' then
      return '@' .. field
    end
  end
  local facts = redis.pcall('HMGET', profile, 'heir', 'owner')
  return facts.err and answer_of(facts) or facts[1] or not facts[2] and '@'
end

-- An operation's answer, or nil. `result`: of HINCRBY, where that was done; the lines after its second one are taken.
local function act(kind, key, rest, result)
  local more, identity, day_s
  if kind ~= 'v' and kind ~= 'c' and kind ~= 'g' then
    more, identity = line(), line()
  end
  if kind == 'p' or kind == 'r' then
    return where(kind, key, rest, more, identity)
  elseif kind == 'n' then
    day_s = line()
  elseif kind == 'V' or kind == 'C' or kind == 'G' or kind == 'D' then
    local ids, room
    if identity ~= '' then
      ids, room = line(), line()
    end
    local answer = elsewhere(more, identity, ids, room)
    if answer then
      return answer
    end
  end

  local answer
  if VISITS[kind] then
    result = result or redis.pcall('HINCRBY', key, rest, '1')
    local fields = result == 1 and redis.call('HLEN', key)
    if fields and is_over(key, fields) then
      redis.call('HDEL', key, rest)
      return -6
    elseif kind == 'n' and type(result) ~= 'table' then
      return met(result, fields, key, rest, more, identity, day_s)
    elseif kind == 'c' or kind == 'C' then
      answer = result
    end
  elseif kind == 'g' or kind == 'G' then
    result = redis.pcall('HGET', key, rest)
    answer = tonumber(result) or 0
  else
    local field = kind == 'D' or redis.pcall('HGET', more, identity)
    if type(field) == 'table' then
      return answer_of(field)
    end
    result = redis.pcall('HDEL', key, rest)
    if not field and result == 1 and redis.pcall('EXISTS', key) ~= 1 then
      -- Its last count is gone, and it stays known.
      redis.call('HSET', more, identity, '.')
    end
  end
  if type(result) == 'table' then
    return kind == 'n' and away(result, more, identity) or answer_of(result)
  end
  return answer
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
  local result = kind == 'v' and redis.pcall('HINCRBY', key, rest, '1')
  if result and type(result) == 'number' and result > 1 then
    visits = visits + 1 -- nearly all
  else
    local answer = act(kind, key, rest, result)
    if VISITS[kind] then
      visits = visits + 1
      if answer and (type(answer) ~= 'number' or answer < 0) then
        uncounted, skipped = uncounted + 1, skipped or {}
        skipped[visits] = true
      end
    end
    if answer then
      answers[n + 1], answers[n + 2] = i, answer
      n = n + 2
    end
  end
end

local counted = visits - uncounted
if ARGV[6] and counted > 0 then
  local lines = ARGV[9]
  if skipped then
    lines = without(lines, skipped)
  end
  local missed = log_visits(ARGV[6], ARGV[7], ARGV[8], lines, counted)
  if missed then
    answers[n + 1], answers[n + 2] = 0, missed
  end
end

return remembered(answers)
