-- A node's stream of visits. `now`: milliseconds of this server's clock.

-- A whole number as text. Redis would spell it as a fraction, which takes it longer.
local function whole(number)
  return string.format('%d', number)
end

-- Visits and bytes that wait, as a list; nil if the stream, or its state, is not at this node. A stream that fails otherwise
-- counts as full: no visit is refused for it.
local function waiting_in(stream, state)
  local waiting, length = redis.pcall('HMGET', state, 'events', 'bytes'), redis.pcall('XLEN', stream)
  local failed = waiting.err or type(length) == 'table' and length.err
  if failed then
    return not string.find(failed, 'non local key', 1, true) and { 0, math.huge } or nil
  end
  return waiting
end

-- Appends the lines of counted visits as one entry. Returns whether they fit below the mark. The entry has the time at which
-- they were counted: its id would be later after this server's clock was set back.
local function log_visits(stream, state, mark, waiting, lines, count)
  local bytes = (waiting[2] or 0) + #lines
  if bytes > tonumber(mark) then
    return false
  end
  redis.call('XADD', stream, '*', 'n', whole(count), 't', whole(now), 'v', lines)
  redis.call('HSET', state, 'events', whole((waiting[1] or 0) + count), 'bytes', whole(bytes))
  return true
end
