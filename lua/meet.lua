-- Meets identities: says whether each is known, and notes that guests who are at home were seen. A batch in one call.
--
-- KEYS[1]    lane: hash tag of this batch, name of the sender's lane
-- KEYS[2...] of each identity: ids of its bucket, its door
--
-- ARGV[1] sequence number of the batch in its lane; 0: nothing is recorded
-- ARGV[2] deadline, in milliseconds of this server's clock
-- ARGV[3] seconds for which the lane remembers its last batch
-- ARGV[4] the identities, two lines each: `s:<session>`; seconds of a day
--
-- Returns for each 1 where it is at home, 2 where it is elsewhere, 0 where it is unknown.
-- Errors: EXPIRED -1, SUPERSEDED -2 (the lane is past this batch); nothing was done.
-- The same batch sent again changes nothing more.

-- @include lane
-- @include note-seen

local answers, i = {}, 0
for identity, day_s in string.gmatch(ARGV[4], '([^\n]*)\n([^\n]*)\n') do
  i = i + 1
  local ids, door = KEYS[2 * i], KEYS[2 * i + 1]
  local field, kind = redis.call('HGET', ids, identity), redis.call('TYPE', door).ok
  if field and field ~= '.' or kind == 'string' then
    answers[i] = 2
  elseif not field and kind == 'none' then
    answers[i] = 0
  else
    answers[i] = 1
    note_seen(door, ids, identity, field, day_s, time[1])
  end
end
return remembered(answers)
