-- An error as an operation's answer: `~` where its key is not at this node, or on the move. What is not known is passed
-- on; raising it would leave half a batch done.
local function answer_of(failed)
  return string.find(failed.err, 'non local key', 1, true) and '~' or failed
end
