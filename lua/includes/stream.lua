-- Returns the free bytes; nil if a key isn't at this node, or its slot is migrating. Raises other errors, before any
-- write.
local function space_in(stream, state, mark)
  for _, reply in ipairs({ redis.pcall('HLEN', state), redis.pcall('XLEN', stream) }) do
    if type(reply) == 'table' then
      return not string.find(reply.err, 'non local key', 1, true) and error(reply.err) or nil
    end
  end
  return tonumber(mark) - (redis.call('HGET', state, 'bytes') or 0)
end

-- Each of the lines ends with a newline.
local function append(stream, state, count, lines)
  redis.call('XADD', stream, '*', 'n', count, 'd', lines)
  redis.call('HINCRBY', state, 'events', count)
  redis.call('HINCRBY', state, 'bytes', #lines)
end
