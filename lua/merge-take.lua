-- First step of a merge: moves a profile's belongings aside and leaves a tombstone that names the heir.
--
-- KEYS[1..5]  visits, items, outbox, profile, merged of the profile   KEYS[6..10]  journal, in the same order
--
-- ARGV[1]     the heir
--
-- Returns {tombstone} where the merge is complete, or {'!' .. heir, visits, items, outbox, profile, merged},
-- each a flat list of field and value, where its belongings are still to be handed over: now, or since a
-- crash. The heir in the tombstone is the one of the first merge, whatever ARGV[1] says.

local tombstone = redis.pcall('GET', KEYS[1])
if type(tombstone) ~= 'string' then
  for i = 1, 5 do
    if redis.call('EXISTS', KEYS[i]) == 1 then
      redis.call('RENAME', KEYS[i], KEYS[i + 5])
    end
  end
  tombstone = '!' .. ARGV[1]
  redis.call('SET', KEYS[1], tombstone)
end
if string.sub(tombstone, 1, 1) ~= '!' then
  return { tombstone }
end
local answer = { tombstone }
for i = 6, 10 do
  answer[i - 4] = redis.call('HGETALL', KEYS[i])
end
return answer
