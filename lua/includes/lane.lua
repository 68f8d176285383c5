-- A batch of a lane: answered as the first time where it was applied already, refused where it is late.
-- `lane`: key of its record; ARGV[1] sequence number, 0 where nothing is recorded; ARGV[2] deadline; ARGV[3] seconds it is remembered
local seq = tonumber(ARGV[1])
if seq > 0 then
  local last = redis.call('GET', lane)
  if last then
    local last_seq, answers = cmsgpack.unpack(last)
    if last_seq == seq then
      return answers
    elseif last_seq > seq then
      return -2
    end
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[2]) then
  return -1
end

local function remembered(answers)
  if seq > 0 then
    redis.call('SET', lane, cmsgpack.pack(seq, answers), 'EX', ARGV[3])
  end
  return answers
end
