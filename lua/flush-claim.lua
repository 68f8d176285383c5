#!lua flags=allow-oom
-- Takes a stream for one flusher: the epoch rises, and every script of an older one is refused.
-- Granted where the stream is free, where the owner is the caller, or where the owner has been silent.
-- Time decides only whether a claim is granted; what keeps two owners apart is the epoch.
-- The new epoch is also no less than this server's clock, so that a server which lost its last writes
-- (a failover, an append-only file cut short) does not hand out an epoch that a flusher still holds.
-- Runs at maxmemory too: the flusher is what makes room.
--
-- KEYS[1] events:state
--
-- ARGV[1] owner, a name that no other process has
-- ARGV[2] the epoch that the caller held last; empty when it has just started
-- ARGV[3] milliseconds without a heartbeat after which an owner counts as gone
--
-- Returns the epoch.
-- Errors: FENCED -4 (the stream has another owner, and it is alive); nothing was taken.

local state = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'beat')
local epoch, owner, beat = tonumber(state[1] or 0), state[2], tonumber(state[3] or 0)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A second process under the same name claims at its start, and the first then waits like any other:
-- what it held is no longer the epoch. Else the two would take the stream from each other for ever.
local own = owner == ARGV[1] and (ARGV[2] == '' or tonumber(ARGV[2]) == epoch)
if owner and not own and now - beat <= tonumber(ARGV[3]) then
  if beat > now then
    -- This server's clock was set back. An owner that lives says so again; one that does not is not waited
    -- for until the clock has caught up.
    redis.call('HSET', KEYS[1], 'beat', now)
  end
  return -4
end

local raised = string.format('%.0f', math.max(epoch + 1, now))
redis.call('HSET', KEYS[1], 'epoch', raised, 'owner', ARGV[1], 'beat', now)
return raised
