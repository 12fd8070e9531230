-- waiting_heads: what of a list of URLs that wait can be moved to ready lists.
--
-- heads(waiting, most, known) looks at the first elements of the list, '<queue>\n<item>',
-- and returns how many can be moved, the items of each place, and the names of queues
-- that are not known: known has the place of each that is. Behind the first of these none
-- can be moved. What is not an element has the queue ''.

local function heads(waiting, most, known)
  local moved, lists, lacking, missing = 0, {}, {}, {}
  for _, element in ipairs(redis.call('LRANGE', waiting, 0, most - 1)) do
    local split = element:find('\n', 1, true)
    local queue = split and element:sub(1, split - 1) or ''
    local place = known[queue]
    if not place then
      if not missing[queue] then lacking[#lacking + 1], missing[queue] = queue, true end
    elseif #lacking == 0 then
      local list = lists[place] or {}
      list[#list + 1], lists[place] = element:sub((split or 0) + 1), list
      moved = moved + 1
    end
  end
  return moved, lists, lacking
end
