#!lua
-- Appends dead letters to their stream again, also above the high-water mark, because they were accepted before.
-- KEYS[1..3] dead letters, stream, its state
-- ARGV[1...] ids
-- Returns the number of lines.

local retried = 0
for _, id in ipairs(ARGV) do
  local letter = redis.call('XRANGE', KEYS[1], id, id)[1]
  if letter then
    local fields = letter[2]
    for i = 1, #fields, 2 do
      if fields[i] == 'line' then
        local line = fields[i + 1] .. '\n'
        redis.call('XADD', KEYS[2], '*', 'n', 1, 'd', line)
        redis.call('HINCRBY', KEYS[3], 'events', 1)
        redis.call('HINCRBY', KEYS[3], 'bytes', #line)
        redis.call('XDEL', KEYS[1], id)
        retried = retried + 1
      end
    end
  end
end
return retried
