-- layout: what a seen-set is made of, as stored and as it is told.
--
-- is_of(born, stored) tells whether a partition is that of the crawl with the mark
-- born, as `counts` has it stored; '' if the crawl has none.
-- read_layout(keys, at) returns {buckets, count, blooms, last, era, claims} of the hash
-- keys[at]; a new set has one bucket. Needs `numbers`.
-- is_at(layout, known) tells whether it is {buckets, blooms, era} = known.
-- told(code, layout, ...) is a reply: the code, the layout without claims, the rest.

local LAYOUT = {'buckets', 'count', 'blooms', 'last', 'era'}

local function is_of(born, stored)
  if stored and stored ~= born and not stored:find('^%w+$') then
    error('BADKEY 1 its born is not the mark of a crawl')
  end
  return (stored or '') == born
end

local function read_layout(keys, at)
  local layout = redis.call('HMGET', keys[at], 'buckets', 'count', 'blooms', 'last', 'era',
    'claims')
  local why = no_number(at, LAYOUT, layout)
  if why then error(why) end
  layout[1] = tonumber(layout[1] or '1')
  for i = 2, 5 do layout[i] = tonumber(layout[i] or '0') end
  return layout
end

local function is_at(layout, known)
  return layout[1] == known[1] and layout[3] == known[2] and layout[5] == known[3]
end

local function told(code, layout, ...)
  return {code, layout[1], layout[2], layout[3], layout[4], layout[5], ...}
end
