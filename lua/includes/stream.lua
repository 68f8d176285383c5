-- A node's stream. If its slot is migrating, reads fail before anything is written.

-- Free bytes; nil if it is not at this node. `mark`: high-water mark in bytes.
local function space_in(stream, state, mark)
  for _, reply in ipairs({ redis.pcall('HLEN', state), redis.pcall('XLEN', stream) }) do
    if type(reply) == 'table' then
      return not string.find(reply.err, 'non local key', 1, true) and error(reply.err) or nil
    end
  end
  return tonumber(mark) - (redis.call('HGET', state, 'bytes') or 0)
end

-- Lines, each with its newline, as one entry.
local function append(stream, state, count, lines)
  redis.call('XADD', stream, '*', 'n', count, 'd', lines)
  redis.call('HINCRBY', state, 'events', count)
  redis.call('HINCRBY', state, 'bytes', #lines)
end
