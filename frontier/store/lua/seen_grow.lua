-- seen_grow: make room in seen-sets: split buckets, begin a Bloom generation.
-- include: numbers layout plans
--
-- KEYS[1...]  those of the first plan, then those of the next. In each plan 1 is
--             `counts`, the hash {born, ...}, 2 `seen`, the hash {buckets, count, blooms,
--             last, era}, then there are buckets, and last the generation to begin
-- ARGV[1...]  plans, a partition each, msgpack [keys, born, layout, base, splits, made]:
--    keys     how many of the KEYS are the plan's
--    born     the mark of the crawl, as `counts` has it; '' if none
--    layout   {buckets, blooms, era}, as the caller knows it
--    base     how many buckets a new set has
--    splits   {from, to, threshold}: keys of buckets to split, in their order, and the
--             member from which on they move
--    made     {bits} of the generation to begin; {0, capacity, error} of a native filter;
--             or empty
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

local function grow(keys, _, born, known, base, splits, made)
  if not is_of(born, redis.call('HGET', keys[1], 'born')) then return {-1} end
  local layout, filter = read_layout(keys, 2, base), keys[#keys]
  if not is_at(layout, known) then return told(0, layout) end
  for _, one in ipairs(splits) do
    redis.call('SCARD', keys[one[1]]) -- what fails, fails before anything is split
    redis.call('SCARD', keys[one[2]])
  end
  for _, one in ipairs(splits) do split(keys, unpack(one)) end
  layout[1] = layout[1] + #splits
  if #splits > 0 then redis.call('HSET', keys[2], 'buckets', layout[1]) end
  if made[1] == 0 then
    redis.call('BF.RESERVE', filter, made[3], made[2], 'EXPANSION', 2)
  elseif made[1] then -- the highest bit first: the bitmap is allocated once and exactly
    redis.call('SETBIT', filter, made[1] - 1, 0)
  end
  if made[1] then
    layout[3], layout[4] = layout[3] + 1, 0
    redis.call('HSET', keys[2], 'blooms', layout[3], 'last', 0)
  end
  return told(0, layout)
end

return each_plan(grow, function() end)
