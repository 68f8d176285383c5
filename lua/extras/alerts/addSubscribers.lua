-- Adds profiles to indexes of products, before the items are stored.
-- KEYS[1] sender channel
-- ARGV[1..3] see includes/senderChannel.lua   ARGV[4] two lines per entry: index, profile
-- Returns {i, answer, ...} for failed entries; see includes/not-here.lua.
-- Errors: EXPIRED, SUPERSEDED.

local sender_channel = KEYS[1]
-- @include senderChannel
-- @include not-here

local text = ARGV[4]
-- @include lines

local answers, n, i = {}, 0, 0
while at <= #text do
  i = i + 1
  local index, profile = line(), line()
  local noted = redis.pcall('HSET', index, profile, now)
  if type(noted) == 'table' then
    answers[n + 1], answers[n + 2] = i, answer_of(noted)
    n = n + 2
  end
end
return remembered(answers)
