-- Counts, reads and resets visits, and reads links, in a batch. Counted visits are logged as one stream entry.
-- A guest's hash has counts. The hash of a linked identity has only its link, in the empty field, and its profile has
-- the counts. So a visit looks for a link only if its count is 1.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua   ARGV[4] maximum products of a profile   ARGV[5] guest's TTL, seconds
-- ARGV[6..8] stream (empty: no log), its state, high-water mark in bytes   ARGV[9] a line per visit
-- ARGV[10..] operations, three each:
--   visit <identity> <product>     counts a guest's visit
--   kept  <identity> <product>     the same, if the sender checked the TTL within the hour
--   count <identity> <product>     counts a visit, and answers the count
--   read  <identity> <product>     answers the count
--   reset <identity> <product>     answers 0
--   peek  <identity> <empty>       answers the link; `.` if it has none; `!` if the default profile is another
--     visitor's; empty if the identity is unknown
--   resolve <identity> <empty>     the same, but creates an unknown identity
-- An operation may be preceded by, in this order:
--   once <record> <seconds>        the operation is done once, and the record keeps its answer
--   at <identity> <link> <profile> <generation>   see includes/redirect.lua; the operation then names the profile's
--     counts instead of the identity
-- Returns {i, answer, ...}. A visit answers only if it was not counted: TOO_MANY -6, a redirect, or `-` (fenced). The
--   answer of i = 0 is how many visits were counted but not logged, because the stream is full.
-- Errors: EXPIRED -1, SUPERSEDED -2, NO_STREAM -7.

local sender_channel = KEYS[1]
-- @include senderChannel
local max, retention = tonumber(ARGV[4]), tonumber(ARGV[5])
-- @include retain
-- @include registered
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
    waiting = { 0, math.huge } -- as if the stream were full: visits are counted, not logged
  end
end

local COUNTS, PROFILE = { 'v' }, { 'v', 'p' }

-- `count` is HINCRBY's reply. Returns it, or why the visit was undone.
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
      -- Only a new guest has neither a profile nor other counts.
      if retention > 0 then
        redis.call('PEXPIREAT', identity, string.format('%d', most))
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

-- Checks before it writes, because in a migrating slot deleting the last count would make the key absent.
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
    redis.call('HSET', key_of(identity, 'p'), 'registered', '1') -- stays registered without counts
  end
  redis.call('HDEL', identity, handle)
  retain(identity, PROFILE)
  return 0
end

-- Reads every key before it writes, because `~` means that nothing was done.
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
    return is_registered(identity, profile) and '.' or ''
  elseif not are_here(identity) then
    return '~'
  end
  register(identity, profile)
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

local visits, uncounted, skipped = 0, 0, nil
-- `count` is HINCRBY's reply, if it was called.
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
    visits = visits + 1 -- the usual case
  else
    local answer = perform(kind, key, handle, count)
    if answer then
      answers[n + 1], answers[n + 2] = i, answer
      n = n + 2
    end
  end
end

-- Redis itself would format a number as floating-point, which is slower.
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
    -- The time is a field, because entry ids don't go back if the server's clock does.
    redis.call('XADD', stream, '*', 'n', whole(counted), 't', whole(now), 'v', lines)
    redis.call('HSET', state, 'events', whole((waiting[1] or 0) + counted), 'bytes', whole(bytes))
  end
end

return remembered(answers)
