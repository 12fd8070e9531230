-- seen_read: the members of some buckets of the set.
--
-- KEYS[1]  seen     hash {buckets, count, blooms, last, era}
-- KEYS[2...]        buckets
-- ARGV[1]  buckets  how many the set has, as the caller knows it
-- ARGV[2]  era      of the set, as well
--
-- Returns {1, members, ...}: a list for each bucket. Or {0, buckets, era} if the
-- set is not as the caller knows it.

local stored = redis.call('HMGET', KEYS[1], 'buckets', 'era')
local buckets, era = stored[1] or '0', stored[2] or '0'
if buckets ~= ARGV[1] or era ~= ARGV[2] then
  return {0, tonumber(buckets), tonumber(era)}
end
local found = {1}
for i = 2, #KEYS do found[i] = redis.call('SMEMBERS', KEYS[i]) end
return found
