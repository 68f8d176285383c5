-- Returns NOT_HERE if a key isn't at this node, or its slot is migrating. Otherwise returns the error, because raising it
-- would leave half a batch applied.
-- @include codes
local function answer_of(failed)
  return string.find(failed.err, 'non local key', 1, true) and NOT_HERE or failed
end
