-- seen_give_up: begin a new, empty set; Bloom decides about the URLs of the old.
--
-- KEYS[1]  seen     hash {buckets, count, blooms, last, era, old, ...}
-- ARGV[1]  era      of the set to give up
-- ARGV[2]  inside   URLs in the Bloom tier now
--
-- Returns 1. The keys of the old set are now to be deleted; `old` keeps its era
-- and the number of its buckets until they are. Returns 0, and does nothing, if
-- that set is not the present one, is empty, or if an older one has not been deleted
-- yet.

local stored = redis.call('HMGET', KEYS[1], 'buckets', 'count', 'era', 'old')
local count, era = tonumber(stored[2] or '0'), stored[3] or '0'
if era ~= ARGV[1] or count == 0 or stored[4] then return 0 end
redis.call('HSETNX', KEYS[1], 'lost_from', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'given_up', count)
redis.call('HINCRBY', KEYS[1], 'era', 1)
redis.call('HSET', KEYS[1], 'old', era .. ' ' .. (stored[1] or '1'))
redis.call('HDEL', KEYS[1], 'buckets', 'count')
return 1
