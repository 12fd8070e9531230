-- seen_read: the members of some buckets of the set.
--
-- KEYS[1]  seen     hash {buckets, count, blooms, last}
-- KEYS[2...]        buckets
-- ARGV[1]  buckets  how many the set has, as the caller knows it
--
-- Returns {1, members, ...}: a list for each bucket. Or {0, buckets} if the set
-- has another number of buckets.

local buckets = tonumber(redis.call('HGET', KEYS[1], 'buckets') or '1')
if buckets ~= tonumber(ARGV[1]) then return {0, buckets} end
local found = {1}
for i = 2, #KEYS do found[i] = redis.call('SMEMBERS', KEYS[i]) end
return found
