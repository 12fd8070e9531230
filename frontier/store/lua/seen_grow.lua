-- seen_grow: make room in seen-sets: split buckets, begin a Bloom generation.
-- include: numbers layout plans
--
-- KEYS[1...]  those of the first plan, then those of the next. In each plan 1 is
--             `counts`, the hash {born, ...}, 2 `seen`, the hash {buckets, count, blooms,
--             last, era}, then there are buckets, and last the generation to begin
-- ARGV[1...]  plans, a partition each, msgpack [keys, born, layout, splits, bits]:
--    keys     how many of the KEYS are the plan's
--    born     the mark of the crawl, as `counts` has it; '' if none
--    layout   {buckets, blooms, era}, as the caller knows it
--    splits   {from, to, threshold}: keys of buckets to split, in their order, and the
--             member from which on they move
--    bits     of the Bloom generation to begin; 0 for none
--
-- Returns a reply per plan: {0, buckets, count, blooms, last, era} as they are now;
-- nothing was done if the caller's layout was not the current one. Or nothing is done
-- but splits, and the reply is {-1} if the partition is not marked as of that crawl.

-- A bucket covers a range of members, and SMEMBERS of an intset is sorted: the upper
-- half moves. All members have as many digits, so text compares as they do.
local function split(keys, from, to, threshold)
  local moved = {}
  for _, member in ipairs(redis.call('SMEMBERS', keys[from])) do
    if member >= threshold then moved[#moved + 1] = member end
  end
  if #moved > 0 then
    redis.call('SREM', keys[from], unpack(moved))
    redis.call('SADD', keys[to], unpack(moved))
  end
end

local function grow(keys, _, born, known, splits, bits)
  if not is_of(born, redis.call('HGET', keys[1], 'born')) then return {-1} end
  local layout, filter = read_layout(keys, 2), keys[#keys]
  if not is_at(layout, known) then return told(0, layout) end
  for _, one in ipairs(splits) do
    redis.call('SCARD', keys[one[1]]) -- what fails, fails before anything is split
    redis.call('SCARD', keys[one[2]])
  end
  for _, one in ipairs(splits) do split(keys, unpack(one)) end
  layout[1] = layout[1] + #splits
  if #splits > 0 then redis.call('HSET', keys[2], 'buckets', layout[1]) end
  if bits > 0 then
    redis.call('SETBIT', filter, bits - 1, 0) -- so it is allocated once and exactly
    layout[3], layout[4] = layout[3] + 1, 0
    redis.call('HSET', keys[2], 'blooms', layout[3], 'last', 0)
  end
  return told(0, layout)
end

return each_plan(grow, function() end)
