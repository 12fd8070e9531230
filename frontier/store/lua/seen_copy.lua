-- seen_copy: write a bucket of the set to the Bloom tier, before the set is given up.
-- include: numbers bloom bloom_note
--
-- KEYS[1]  seen    hash {buckets, count, blooms, last, era, copied, ...}
-- KEYS[2]  bucket  the bucket, a set
-- KEYS[3]  filter  the last Bloom generation
-- ARGV[1]  number  of the bucket, from 0
-- ARGV[2]  era     of the set
-- ARGV[3]  blooms  how many Bloom generations there are
-- ARGV[4]  base    how many buckets a set has that was never split
-- ARGV[5]  bits    of the last generation; 0 if it is a filter of the server's own
-- ARGV[6]  hashes  of it
-- ARGV[7]  room    URLs that it is made for
--
-- Buckets are copied in the order of their numbers, and `copied` counts them: a split
-- moves members to a bucket that comes later. What is pushed meanwhile is written to
-- both.
--
-- Returns {code, buckets, count, blooms, last, era, copied}. The code is 1; or 0, and
-- nothing was done, as the bucket is not the next one or the seen-set has another
-- layout; or 2, and nothing was done, as the generation has no room for the bucket.

local names = {'buckets', 'count', 'blooms', 'last', 'era', 'copied'}
local seen = redis.call('HMGET', KEYS[1], unpack(names))
local why = no_number(1, names, seen)
if why then return redis.error_reply(why) end
seen[1] = tonumber(seen[1] or ARGV[4])
for i = 2, 6 do seen[i] = tonumber(seen[i] or '0') end
if seen[6] ~= tonumber(ARGV[1]) or seen[5] ~= tonumber(ARGV[2])
    or seen[3] ~= tonumber(ARGV[3]) then
  return {0, unpack(seen)}
end
local members, bits = redis.call('SMEMBERS', KEYS[2]), tonumber(ARGV[5])
if bits > 0 and seen[4] + #members > tonumber(ARGV[7]) then return {2, unpack(seen)} end
note(KEYS[3], {bits, tonumber(ARGV[6])}, members)
seen[4], seen[6] = seen[4] + #members, seen[6] + 1
redis.call('HSET', KEYS[1], 'last', seen[4], 'copied', seen[6])
return {1, unpack(seen)}
