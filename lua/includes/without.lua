local function without(lines, left_out)
  local kept, at = {}, 0
  for line in string.gmatch(lines, '[^\n]*\n') do
    at = at + 1
    if not left_out[at] then
      kept[#kept + 1] = line
    end
  end
  return table.concat(kept)
end
