-- claims: the marks of requests that one process alone can make, while it has them.
--
-- claim(keys, layout, mark, owner, verdict) notes in keys[4], `claimed`, that the delivery
-- owner has the mark, if its verdict is new; in a partition that had none, also that it has
-- some. It returns what the push is told: n if it is new, or the same delivery had it before.
-- claimed(keys, layout, mark, verdict, owner) is what a push is told of a mark that may be
-- claimed: c if another has it. Of what has no owner nobody knows who makes it again after a
-- kill, so the first who finds it gets it, and `claimed` then has TAKEN.

local TAKEN = '-'

local function claimed(keys, layout, mark, verdict, owner)
  local is_seen = verdict == 's' or verdict == 'b'
  local has_it = layout[6] and is_seen and redis.call('HGET', keys[4], mark)
  if not has_it then return verdict end
  if has_it == owner then return 'n' end
  if has_it ~= '' then return 'c' end
  redis.call('HSET', keys[4], mark, owner or TAKEN)
  return 'n'
end

local function claim(keys, layout, mark, owner, verdict)
  if verdict ~= 'n' then return claimed(keys, layout, mark, verdict, owner) end
  redis.call('HSET', keys[4], mark, owner)
  if not layout[6] then layout[6] = redis.call('HSET', keys[3], 'claims', 1) end
  return verdict
end
