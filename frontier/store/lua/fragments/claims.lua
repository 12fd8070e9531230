-- claims: the marks of requests that one process alone can make, while it has them.
--
-- claim(keys, layout, mark, owner, verdict) notes in keys[4], `claimed`, that the delivery
-- owner has the mark, if its verdict is new; in a partition that had none, also that it has
-- some. It returns what the push is told: n if it is new, or the same delivery had it before.
-- claimed(keys, layout, mark, verdict) is c for a mark that was found seen, and is claimed.

local function claimed(keys, layout, mark, verdict)
  local is_seen = verdict == 's' or verdict == 'b'
  return layout[6] and is_seen and redis.call('HEXISTS', keys[4], mark) == 1 and 'c' or verdict
end

local function claim(keys, layout, mark, owner, verdict)
  if verdict ~= 'n' then
    local is_own = layout[6] and redis.call('HGET', keys[4], mark) == owner
    return is_own and 'n' or claimed(keys, layout, mark, verdict)
  end
  redis.call('HSET', keys[4], mark, owner)
  if not layout[6] then layout[6] = redis.call('HSET', keys[3], 'claims', 1) end
  return verdict
end
