-- A repeated batch gets its first answers, even after its deadline. A batch is refused if a newer one was done. On an
-- error nothing is done. Only the channel is a declared key, because a batch has keys of many slots.
-- ARGV[1] sequence; 0 to record none   ARGV[2] deadline, milliseconds of this server's clock
-- ARGV[3] TTL of the channel, seconds
-- @include codes
local seq = tonumber(ARGV[1])
if seq > 0 then
  local last = redis.call('GET', sender_channel)
  if last then
    local last_seq, answers = cmsgpack.unpack(last)
    if last_seq == seq then
      return answers
    elseif last_seq > seq then
      return SUPERSEDED
    end
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[2]) then
  return EXPIRED
end

local function remembered(answers)
  if seq > 0 then
    redis.call('SET', sender_channel, cmsgpack.pack(seq, answers), 'EX', ARGV[3])
  end
  return answers
end
