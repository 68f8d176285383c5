-- Notes that an identity at home was seen: the day, by this server's clock, in the field with the empty name at its door.
-- One that has a day needs no field in `ids`.
local function note_seen(door, ids, identity, field, day_s, seconds)
  redis.call('HSET', door, '', math.floor(seconds / day_s))
  if field then
    redis.call('HDEL', ids, identity)
  end
end
