-- Counts, reads and resets visits, and says where identities are: a batch of operations in one call. The visits that
-- it counts are logged, as one entry of a stream.
--
-- A guest's identity is a hash with its counts, product -> count: a visit is one HINCRBY. A linked identity has one field,
-- with the empty name: its link, `<profile> <generation>`; the counts are that profile's, under another key, which several
-- identities may share. So a first visit of a product may be one of a linked identity: only then the link is looked for.
--
-- A guest and all that it has ends some time after its last write; see includes/retain.lua.
--
-- KEYS[1]    lane: hash tag of this batch, name of the sender's lane. A batch names no key of its operations
--            (allow-cross-slot-keys)
--
-- ARGV[1]    sequence number of the batch in its lane; 0: the batch only reads, nothing is recorded
-- ARGV[2]    deadline, in milliseconds of this server's clock
-- ARGV[3]    seconds for which the lane remembers its last batch
-- ARGV[4]    products that a profile may count
-- ARGV[5]    seconds for which a guest stays after its last write; 0: for ever
-- ARGV[6]    the operations, in lines (keys, ids and handles have no control characters): a letter for the kind with
--            the key behind it, then what is looked for there, then for some kinds four lines more
--              v visit, c visit and answer the count, g get the count, d reset: identity; handle
--              p read the link, r the same and make the identity known: identity; nothing
--              V C G D the same as v c g d, of another profile than the identity's default one: its counts; handle; identity, or empty where its link was
--                read before; the link that the sender expects; the profile; its generation
-- ARGV[7..10] where visits are logged: stream; its state; its high-water mark: waiting bytes that may not be passed; a
--            line for each v c V C, in their order
--
-- Returns a flat list {i, answer, i, answer, ...} of the operations that have one:
--   a count (integer) for c, C, g, G; TOO_MANY -6 for a visit: this would be one product too many
--   for p and r the link, or `.` where there is none, `!` where the default profile is another visitor's; for p empty where the
--   identity is unknown
--   a redirect, see includes/redirect.lua: nothing was done
-- Those missing from the list were done.
-- The number 0 in place of an operation's: so many visits were counted and not logged, since the stream is at its mark.
-- Errors: EXPIRED -1 (deadline passed), SUPERSEDED -2 (the lane is past this batch), NO_STREAM -7 (the stream is not at this
-- node); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

local lane = KEYS[1]
-- @include lane
local max, retention = tonumber(ARGV[4]), tonumber(ARGV[5])
-- @include log-visits
-- @include retain
-- @include known
-- @include without
-- @include not-here
-- @include gone
-- @include redirect

local waiting
if ARGV[7] then
  waiting = waiting_in(ARGV[7], ARGV[8])
  if not waiting then
    return -7
  end
end

local text, type = ARGV[6], type
-- @include lines
local VISITS = { v = true, c = true, V = true, C = true }
local TELLS = { c = true, C = true }
local COUNTS, PROFILE = { 'v' }, { 'v', 'p' }

-- p and r. Every key is read before one is written, so `~` means that nothing was done.
local function link_of(kind, identity)
  local link = redis.pcall('HGET', identity, '')
  if type(link) == 'table' then
    return answer_of(link)
  elseif link then
    return link
  end
  local profile = key_of(identity, 'p')
  local there = redis.pcall('EXISTS', profile)
  if type(there) == 'table' then
    return answer_of(there)
  end
  local answer = gone(profile, '')
  if answer then
    return answer
  elseif kind == 'p' then
    return is_known(identity, profile) and '.' or ''
  end
  if not are_here(identity) then
    return '~'
  end
  make_known(identity, profile)
  retain(identity, PROFILE)
  return '.'
end

-- A first visit of a product by an identity: what it answers instead, where it is taken back. A linked one has had its link
-- alone.
local function taken_back(identity, handle)
  local fields = redis.call('HLEN', identity)
  local link = fields == 2 and redis.call('HGET', identity, '')
  if link or fields > max then
    redis.call('HDEL', identity, handle)
    return link and '@' .. link or -6
  elseif fields == 1 and redis.pcall('EXISTS', key_of(identity, 'p')) == 0 then
    -- A new visitor: all others have a profile, or counts.
    if retention > 0 then
      redis.call('PEXPIREAT', identity, most)
    end
    return nil
  end
  local answer = fields == 1 and gone(key_of(identity, 'p'), '')
  if answer then
    redis.call('HDEL', identity, handle)
    return answer
  elseif not is_in_time(redis.call('PEXPIRETIME', identity)) then
    if not are_here(identity) then
      redis.call('HDEL', identity, handle)
      return '~'
    end
    retain(identity, COUNTS)
  end
end

-- d. What a slot on the move may refuse comes before what is written: a last count takes its key along.
local function reset(identity, handle)
  local link = redis.pcall('HGET', identity, '')
  if type(link) == 'table' then
    return answer_of(link)
  elseif link then
    return '@' .. link
  end
  if redis.call('HEXISTS', identity, handle) == 0 then
    return gone(key_of(identity, 'p'), '')
  end
  if not are_here(identity) then
    return '~'
  elseif redis.call('HLEN', identity) == 1 then
    -- Its last count goes, and it stays known.
    redis.call('HSET', key_of(identity, 'p'), 'known', '1')
  end
  redis.call('HDEL', identity, handle)
  retain(identity, PROFILE)
end

-- V C G D.
local function of_profile(kind, key, handle, identity, expected, profile, generation)
  local answer, result = redirect(identity, expected, profile, generation), nil
  if answer then
    return answer
  end
  local is_written_guest = generation == '' and kind ~= 'G'
  if is_written_guest and not are_here(profile) then
    return '~'
  end
  if kind == 'G' then
    result = redis.pcall('HGET', key, handle)
    return type(result) == 'table' and answer_of(result) or tonumber(result) or 0
  elseif kind == 'D' then
    result = redis.pcall('HDEL', key, handle)
  else
    result = redis.pcall('HINCRBY', key, handle, '1')
  end
  if type(result) == 'table' then
    return answer_of(result)
  elseif kind ~= 'D' and result == 1 and redis.call('HLEN', key) > max then
    redis.call('HDEL', key, handle)
    return -6
  end
  if is_written_guest then
    retain(profile, PROFILE, identity)
  end
  return kind == 'C' and result or nil
end

-- g.
local function read(identity, handle)
  local both = redis.pcall('HMGET', identity, handle, '')
  if both.err then
    return answer_of(both)
  end
  return both[2] and '@' .. both[2] or tonumber(both[1]) or gone(key_of(identity, 'p'), '') or 0
end

-- An operation's answer, or nil. `result`: of HINCRBY, where it failed or is 1; the lines after its second one are taken.
local function act(kind, key, rest, result)
  if result then
    if type(result) == 'table' then
      return answer_of(result)
    end
    return taken_back(key, rest) or TELLS[kind] and result or nil
  elseif kind == 'p' or kind == 'r' then
    return link_of(kind, key)
  elseif kind == 'g' then
    return read(key, rest)
  elseif kind == 'd' then
    return reset(key, rest)
  end
  return of_profile(kind, key, rest, line(), line(), line(), line())
end

local answers, n, i = {}, 0, 0
-- Visits so far, those that were not counted, and which.
local visits, uncounted, skipped = 0, 0, nil
local function skip_visit()
  uncounted, skipped = uncounted + 1, skipped or {}
  skipped[visits] = true
end

while at <= #text do
  i = i + 1
  local middle = find(text, '\n', at, true)
  local stop = find(text, '\n', middle + 1, true)
  local kind, key, rest = sub(text, at, at), sub(text, at + 1, middle - 1), sub(text, middle + 1, stop - 1)
  at = stop + 1
  local is_guest = kind == 'v' or kind == 'c'
  local result, answer = is_guest and redis.pcall('HINCRBY', key, rest, '1'), nil
  if result and type(result) == 'number' and result > 1 then
    visits = visits + 1 -- nearly all
    local ends = redis.call('PEXPIRETIME', key)
    answer = TELLS[kind] and result
    if ends < least or ends > most then
      if are_here(key) then
        retain(key, COUNTS)
      else
        redis.call('HINCRBY', key, rest, '-1')
        answer = '~'
        skip_visit()
      end
    end
  else
    answer = act(kind, key, rest, result)
    if VISITS[kind] then
      visits = visits + 1
      if answer and (type(answer) ~= 'number' or answer < 0) then
        skip_visit()
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
  if not log_visits(ARGV[7], ARGV[8], ARGV[9], waiting, lines, counted) then
    answers[n + 1], answers[n + 2] = 0, counted
  end
end

return remembered(answers)
