-- Counts, reads and resets visits, and answers identities' links: a batch of operations in one call. The visits that it
-- counts are logged, as one entry of a stream.
--
-- A guest's identity is a hash with its counts, product -> count: a visit is one HINCRBY. A linked identity has one field,
-- with the empty name: its link, `<profile> <generation>`. Its profile has the counts, under another key. So a link is
-- looked for only if HINCRBY answers 1.
--
-- KEYS[1]    lane: hash tag of this batch, name of the sender's lane. A batch names no key of its operations
--            (allow-cross-slot-keys)
--
-- ARGV[1]    sequence number of the batch in its lane; 0: the batch only reads, nothing is recorded
-- ARGV[2]    deadline, in milliseconds of this server's clock
-- ARGV[3]    seconds for which the lane remembers its last batch
-- ARGV[4]    products that a profile may count
-- ARGV[5]    seconds for which a guest stays after its last write, see includes/retain.lua; 0: for ever
-- ARGV[6]    stream in which visits are logged; empty: they are not   ARGV[7] its state
-- ARGV[8]    its high-water mark: waiting bytes that may not be passed   ARGV[9] a line for each visit, in their order
-- ARGV[10..] the operations, three arguments each:
--              visit <identity> <product>     of a guest
--              kept  <identity> <product>     the same; its sender has seen within the hour that the guest's end is in time
--              count <identity> <product>     a visit that answers the count after it
--              read  <identity> <product>     answers the count
--              reset <identity> <product>     answers 0
--              peek  <identity> <empty>       answers the link; `.` if there is none; `!` if the default profile is another
--                                             visitor's; empty if the identity is unknown
--              resolve <identity> <empty>     the same; an unknown identity becomes known
--            Before an operation there may be, in this order:
--              once <record> <seconds>        count or reset once: the record keeps the answer, see fence.lua
--              at <identity> <link> <profile> <generation>   of another profile than the identity's default one: its counts
--                                             take the identity's place; see includes/redirect.lua
--
-- Returns a flat list {i, answer, i, answer, ...}. A visit has an answer only if it was not counted:
--   TOO_MANY -6: it would be one product too many
--   a redirect, see includes/redirect.lua
--   `-`: the operation's record was fenced: it is done elsewhere now
-- The number 0 in place of an operation's: so many visits were counted and not logged, since the stream is at its mark.
-- Errors: EXPIRED -1 (deadline passed), SUPERSEDED -2 (the lane is past this batch), NO_STREAM -7 (the stream is not at this
-- node); nothing was done.
-- The same batch sent again answers as the first time, however late, and changes nothing.

local lane = KEYS[1]
-- @include lane
local max, retention = tonumber(ARGV[4]), tonumber(ARGV[5])
-- @include retain
-- @include known
-- @include without
-- @include not-here
-- @include gone
-- @include redirect

local stream, state, mark = ARGV[6], ARGV[7], tonumber(ARGV[8])
local waiting
if stream ~= '' then
  waiting = redis.pcall('HMGET', state, 'events', 'bytes')
  local length = redis.pcall('XLEN', stream)
  local failed = waiting.err or type(length) == 'table' and length.err
  if failed and string.find(failed, 'non local key', 1, true) then
    return -7
  elseif failed then
    waiting = { 0, math.huge } -- counts as full: no visit is refused for it
  end
end

local COUNTS, PROFILE = { 'v' }, { 'v', 'p' }

-- `count`: what HINCRBY has answered. Returns it, or why the visit was taken back.
local function guest_visit(identity, handle, count)
  if type(count) == 'table' then
    return answer_of(count)
  end
  local answer
  if count == 1 then
    local fields = redis.call('HLEN', identity)
    local link = fields == 2 and redis.call('HGET', identity, '')
    if link then
      answer = '@' .. link
    elseif fields > max then
      answer = -6
    elseif fields == 1 and redis.pcall('EXISTS', key_of(identity, 'p')) == 0 then
      -- A new visitor: all others have a profile, or counts.
      if retention > 0 then
        redis.call('PEXPIREAT', identity, most)
      end
      return count
    elseif fields == 1 then
      answer = gone(key_of(identity, 'p'), '')
    end
  end
  if not answer and not is_in_time(redis.call('PEXPIRETIME', identity)) then
    if are_here(identity) then
      retain(identity, COUNTS)
    else
      answer = '~'
    end
  end
  if answer and count == 1 then
    redis.call('HDEL', identity, handle)
  elseif answer then
    redis.call('HINCRBY', identity, handle, '-1')
  end
  return answer or count
end

-- What a slot on the move may refuse comes before what is written: a last count takes its key along.
local function guest_reset(identity, handle)
  local link = redis.pcall('HGET', identity, '')
  if type(link) == 'table' then
    return answer_of(link)
  elseif link then
    return '@' .. link
  elseif redis.call('HEXISTS', identity, handle) == 0 then
    return gone(key_of(identity, 'p'), '') or 0
  elseif not are_here(identity) then
    return '~'
  elseif redis.call('HLEN', identity) == 1 then
    redis.call('HSET', key_of(identity, 'p'), 'known', '1') -- its last count goes, and it stays known
  end
  redis.call('HDEL', identity, handle)
  retain(identity, PROFILE)
  return 0
end

-- peek and resolve. Every key is read before one is written, so `~` means that nothing was done.
local function link_of(kind, identity)
  local link, profile = redis.pcall('HGET', identity, ''), key_of(identity, 'p')
  local there = redis.pcall('EXISTS', profile)
  if type(link) == 'table' then
    return answer_of(link)
  elseif link then
    return link
  elseif type(there) == 'table' then
    return answer_of(there)
  end
  local answer = gone(profile, '')
  if answer then
    return answer
  elseif kind == 'peek' then
    return is_known(identity, profile) and '.' or ''
  elseif not are_here(identity) then
    return '~'
  end
  make_known(identity, profile)
  retain(identity, PROFILE)
  return '.'
end

local function of_guest(kind, identity, handle)
  if kind == 'reset' then
    return guest_reset(identity, handle)
  elseif kind == 'peek' or kind == 'resolve' then
    return link_of(kind, identity)
  elseif kind == 'read' then
    local both = redis.pcall('HMGET', identity, handle, '')
    if both.err then
      return answer_of(both)
    end
    return both[2] and '@' .. both[2] or tonumber(both[1]) or gone(key_of(identity, 'p'), '') or 0
  end
  return guest_visit(identity, handle, redis.pcall('HINCRBY', identity, handle, '1'))
end

-- `guest`: key of the profile, if it is a guest's home.
local function of_profile(kind, counts, handle, guest, identity)
  local result
  if guest and kind ~= 'read' and not are_here(guest) then
    return '~'
  end
  if kind == 'read' then
    result = redis.pcall('HGET', counts, handle)
  elseif kind == 'reset' then
    result = redis.pcall('HDEL', counts, handle)
  else
    result = redis.pcall('HINCRBY', counts, handle, '1')
  end
  if type(result) == 'table' then
    return answer_of(result)
  elseif kind == 'read' then
    return tonumber(result) or 0
  elseif kind ~= 'reset' and result == 1 and redis.call('HLEN', counts) > max then
    redis.call('HDEL', counts, handle)
    return -6
  end
  if guest then
    retain(guest, PROFILE, identity)
  end
  return kind == 'reset' and 0 or result
end

local at = 10
local function take()
  at = at + 3
  return ARGV[at - 3], ARGV[at - 2], ARGV[at - 1]
end

-- Visits so far, and which of them were not counted.
local visits, uncounted, skipped = 0, 0, nil
-- `count`: of HINCRBY, if it was called.
local function perform(kind, key, handle, count)
  local act, record, seconds, earlier, answer, guest, identity = of_guest, nil, nil, nil, nil, nil, nil
  if kind == 'once' then
    record, seconds = key, handle
    earlier = redis.pcall('GET', record)
    answer = type(earlier) == 'table' and answer_of(earlier) or tonumber(earlier) or earlier or nil
    kind, key, handle = take()
  end
  if kind == 'at' then
    local profile, generation = ARGV[at], ARGV[at + 1]
    act, answer = of_profile, answer or redirect(key, handle, profile, generation)
    guest, identity = generation == '' and profile, key
    at = at + 2
    kind, key, handle = take()
  end
  answer = answer or count and guest_visit(key, handle, count) or act(kind, key, handle, guest, identity)
  local is_done = type(answer) == 'number' and answer >= 0
  if record and is_done and not earlier then
    redis.call('SET', record, answer, 'EX', seconds)
  end
  if kind == 'visit' or kind == 'kept' or kind == 'count' then
    visits = visits + 1
    if earlier or not is_done then
      uncounted, skipped = uncounted + 1, skipped or {}
      skipped[visits] = true
    elseif kind ~= 'count' then
      return nil
    end
  end
  return answer
end

local answers, n, i, last = {}, 0, 0, #ARGV
while at <= last do
  i = i + 1
  local kind, key, handle = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  local count = (kind == 'kept' or kind == 'visit') and redis.pcall('HINCRBY', key, handle, '1')
  local is_warm = type(count) == 'number' and count > 1
  if is_warm and kind == 'visit' then
    local ends = redis.call('PEXPIRETIME', key)
    is_warm = ends >= least and ends <= most
  end
  if is_warm then
    visits = visits + 1 -- nearly all
  else
    local answer = perform(kind, key, handle, count)
    if answer then
      answers[n + 1], answers[n + 2] = i, answer
      n = n + 2
    end
  end
end

-- Redis would spell a number as a fraction, which takes it longer.
local function whole(number)
  return string.format('%d', number)
end

local counted = visits - uncounted
if waiting and counted > 0 then
  local lines = skipped and without(ARGV[9], skipped) or ARGV[9]
  local bytes = (waiting[2] or 0) + #lines
  if bytes > mark then
    answers[n + 1], answers[n + 2] = 0, counted
  else
    -- The entry has the time at which they were counted: its id would be later after this server's clock was set back.
    redis.call('XADD', stream, '*', 'n', whole(counted), 't', whole(now), 'v', lines)
    redis.call('HSET', state, 'events', whole((waiting[1] or 0) + counted), 'bytes', whole(bytes))
  end
end

return remembered(answers)
