#!lua flags=allow-oom
-- First step of an erasure: from now on nothing can be done at a profile but to erase it. Its `heir` is `@`, which every
-- script refuses, and `root` is the room whose erasure it is part of. The bucket remembers it among its merges, so that
-- what a process left half done is found.
--
-- KEYS[1] profile   KEYS[2] merges of its bucket
--
-- ARGV[1]   deadline, in milliseconds of this server's clock
-- ARGV[2]   the profile
-- ARGV[3]   the root
-- ARGV[4]   the owner that it must have, where it is a room; empty for the root itself: any
-- ARGV[5..] profiles of the same erasure: it may also have been merged into one of them
--
-- Returns {root, owner, share code}, of the first call, or a string and nothing was done: the heir's id, `!` before it
-- while the merge is under way; empty where it is no room (any more), or another owner's.
-- Errors: EXPIRED -1; nothing was done.

local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
if ms > tonumber(ARGV[1]) then
  return -1
end

local facts = redis.call('HMGET', KEYS[1], 'heir', 'owner', 'share', 'root')
local heir, owner, root = facts[1], facts[2] or '', facts[4]
if heir ~= '@' then
  if heir then
    local is_ours = false
    for i = 5, #ARGV do
      is_ours = is_ours or string.gsub(heir, '^!', '') == ARGV[i]
    end
    if not is_ours then
      return heir
    end
  elseif owner == '' or ARGV[4] ~= '' and owner ~= ARGV[4] then
    return ''
  end
  root = ARGV[3]
  redis.call('HSET', KEYS[1], 'heir', '@', 'root', root)
  redis.call('ZADD', KEYS[2], ms, ARGV[2])
end
return { root, owner, facts[3] or '' }
