-- @include codes
local function retired(profile)
  local target = redis.pcall('HGET', profile, 'target')
  if type(target) == 'table' then
    return answer_of(target)
  end
  return target and RETIRED or nil
end

-- Returns nil if an operation may be done at this profile. Otherwise nothing is done, and returns why: LINKED with the
-- link, NOT_MEMBER, RETIRED or NOT_HERE.
-- `session` is empty for a guest, and if the operation names the customer.
local function fence(profile, session, link_id)
  if session ~= '' then
    local note = redis.pcall('HGET', key_of(profile, 'g'), session)
    if type(note) == 'table' then
      return answer_of(note)
    end
    return (not note or string.sub(note, 1, #link_id + 1) ~= link_id .. ' ') and NOT_MEMBER or nil
  elseif is_customer(profile) then
    return nil
  end
  local link = redis.pcall('HGET', key_of(profile, 'v'), '')
  if type(link) == 'table' then
    return answer_of(link)
  elseif link then
    return LINKED .. link
  end
  return retired(profile)
end
