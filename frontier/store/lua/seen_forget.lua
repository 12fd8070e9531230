-- seen_forget: take URLs out of the set, so that they are new again.
--
-- KEYS[1]  seen     hash {buckets, count, blooms, last}
-- KEYS[2...]        the bucket of each member
-- ARGV[1]  buckets  how many the set has, as the caller knows it
-- ARGV[2...]        members
--
-- Returns {1, flags}: for each member 1 if it was in the set, else 0. Or
-- {0, buckets}, and nothing is done, if the set has another number of buckets.

local buckets = tonumber(redis.call('HGET', KEYS[1], 'buckets') or '1')
if buckets ~= tonumber(ARGV[1]) then return {0, buckets} end
local flags, removed = {}, 0
for i = 2, #KEYS do
  local had = redis.call('SREM', KEYS[i], ARGV[i])
  flags[i - 1] = had
  removed = removed + had
end
if removed > 0 then redis.call('HINCRBY', KEYS[1], 'count', -removed) end
return {1, flags}
