-- reservations: note what was taken from ready lists as reserved.
--
-- KEYS[4]  reserved  hash: id to '<token>\n<queue>\n<item>'
--
-- reserve(seq, values) notes values under the ids that follow one another from the
-- first number on after seq at which none of them is taken: seq is not what it was if one
-- is. It returns the number before the first.

local AT_ONCE = 500 -- reservations per command: Lua hands over 8,000 values at most

local function reserve(seq, values)
  local ids, taken = {}, nil
  repeat
    taken = 0
    for i = 1, #values do ids[i] = string.format('%.0f', seq + i) end
    for first = 1, #ids, AT_ONCE do
      local last = math.min(first + AT_ONCE - 1, #ids)
      for i, value in ipairs(redis.call('HMGET', KEYS[4], unpack(ids, first, last))) do
        if value then taken = first + i - 1 end
      end
    end
    seq = seq + taken
  until taken == 0
  for first = 1, #ids, AT_ONCE do
    local fields = {}
    for i = first, math.min(first + AT_ONCE - 1, #ids) do
      local n = 2 * (i - first)
      fields[n + 1], fields[n + 2] = ids[i], values[i]
    end
    redis.call('HSET', KEYS[4], unpack(fields))
  end
  return seq
end
