-- A whole number as text. Redis would spell it as a fraction, which takes it longer.
local function whole(number)
  return string.format('%d', number)
end

-- Appends the lines of counted visits to a stream of visits, as one entry. Returns nil, or what was not logged: the count
-- where the stream is at its mark, the count below 0 where it is not at this node. All that a slot on the move may refuse
-- comes before what is written.
local function log_visits(stream, state, mark, lines, count)
  local waiting = redis.pcall('HMGET', state, 'events', 'bytes')
  if waiting.err then
    return -count
  end
  local bytes = (waiting[2] or 0) + #lines
  if bytes > tonumber(mark) then
    return count
  elseif type(redis.pcall('XADD', stream, '*', 'n', whole(count), 'v', lines)) == 'table' then
    return -count
  end
  redis.call('HSET', state, 'events', whole((waiting[1] or 0) + count), 'bytes', whole(bytes))
end
