-- Counts, reads and resets visits, and resolves identities: a batch of operations in one call.
-- First visit or thousandth, each is one round trip.
--
-- An identity whose own profile has visits needs no mapping to it: that it has no other one says enough. So a
-- guest who only looks around is one key, and most visits ask a hash that is not there. The mapping is written
-- where the profile would not tell of its identity: for an event or an item, and when a count goes away.
--
-- KEYS[1]        lane: hash tag of this batch, name of the sender's lane
-- KEYS[2i]       operation i: hash that may name another profile for the identity: `ids` of the
--                identity's bucket, or, for a profile of another bucket, `moved` of that profile
-- KEYS[2i+1]     operation i: visits of the profile (hash; a string naming its heir once merged away)
--
-- ARGV[1]        sequence number of the batch in its lane; 0: the batch only reads, nothing is recorded
-- ARGV[2]        deadline, in milliseconds of this server's clock
-- ARGV[3]        seconds for which the lane remembers its last batch
-- ARGV[4]        the operations, each in three lines (an argument each would cost twice as much on both sides;
--                ids and handles have no control characters):
--                  its kind, one letter, and the identity, `s:<session>` or `c:<customer>`
--                  the profile that the sender expects
--                  product handle; empty for r and p
--                kinds: v visit, c visit and answer the count, g get the count, d reset, r resolve (make the
--                mapping where there is none), p peek (only tell whether it has a profile);
--                in capitals where KEYS[2i] is `moved`, so that nothing is created there
--
-- Returns a flat list {i, answer, i, answer, ...} of the operations that have one: a count (integer),
-- or, where the identity has another profile, that profile's id (string) and nothing was done; a peek at
-- an identity without a profile answers an empty string.
-- Operations that are missing from the list were done as expected.
-- Errors: EXPIRED -1 (deadline passed), SUPERSEDED -2 (the lane is past this batch); nothing was done.
-- The same batch sent again answers as the first time and changes nothing.

local seq = tonumber(ARGV[1])
local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 > tonumber(ARGV[2]) then
  return -1
end

if seq > 0 then
  local last = redis.call('GET', KEYS[1])
  if last then
    local last_seq, answers = cmsgpack.unpack(last)
    if last_seq == seq then
      return answers
    elseif last_seq > seq then
      return -2
    end
  end
end

local answers, n = {}, 0
local i = 0
for kind, identity, profile, handle in string.gmatch(ARGV[4], '(.)([^\n]*)\n([^\n]*)\n([^\n]*)\n') do
  i = i + 1
  local names, visits = KEYS[2 * i], KEYS[2 * i + 1]
  local answer
  local named = redis.call('HGET', names, identity)
  if named and named ~= profile then
    answer = named
  else
    local result
    if kind == 'v' or kind == 'c' or kind == 'V' or kind == 'C' then
      result = redis.pcall('HINCRBY', visits, handle, 1)
    elseif kind == 'd' or kind == 'D' then
      result = redis.pcall('HDEL', visits, handle)
    elseif kind == 'p' then
      result = redis.pcall('HLEN', visits)
    else
      result = redis.pcall('HGET', visits, handle)
    end
    if type(result) == 'table' and result.err then
      -- WRONGTYPE: the profile was merged away and its visits are a string that names the heir.
      -- Any other error is passed on as the answer; raising it would leave half a batch done.
      answer = string.find(result.err, 'WRONGTYPE', 1, true) and redis.call('GET', visits) or result
    elseif kind == 'c' or kind == 'C' then
      answer = result
    elseif kind == 'g' or kind == 'G' then
      answer = tonumber(result) or 0
    elseif not named and (kind == 'r' or (kind == 'd' and result == 1)) then
      redis.call('HSET', names, identity, profile)
    elseif not named and kind == 'p' and result == 0 then
      answer = ''
    end
  end
  if answer then
    answers[n + 1], answers[n + 2] = i, answer
    n = n + 2
  end
end

if seq > 0 then
  redis.call('SET', KEYS[1], cmsgpack.pack(seq, answers), 'EX', ARGV[3])
end
return answers
