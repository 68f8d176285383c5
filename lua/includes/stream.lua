-- A node's stream of events. All that its slot, where that is on the move, may refuse comes before what is written.

-- Bytes that it still takes; nil where it is not at this node. `mark`: waiting bytes that may not be passed.
local function space_in(stream, state, mark)
  for _, reply in ipairs({ redis.pcall('HLEN', state), redis.pcall('XLEN', stream) }) do
    if type(reply) == 'table' then
      return not string.find(reply.err, 'non local key', 1, true) and error(reply.err) or nil
    end
  end
  return tonumber(mark) - (redis.call('HGET', state, 'bytes') or 0)
end

-- Appends lines, each ended by a newline, as one entry; its pending figures change with it.
local function append(stream, state, count, lines)
  redis.call('XADD', stream, '*', 'n', count, 'd', lines)
  redis.call('HINCRBY', state, 'events', count)
  redis.call('HINCRBY', state, 'bytes', #lines)
end
