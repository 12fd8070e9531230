-- seen_add: put members into the set, without queueing anything.
--
-- KEYS[1]  seen     hash {buckets, count, blooms, last}
-- KEYS[2...]        the two buckets of each split, then that of each member
-- ARGV[1]  buckets  how many the set has, as the caller knows it
-- ARGV[2]  room     members that it may have after the splits
-- ARGV[3]  splits   how many buckets are to be split first
-- ARGV[4...]        the threshold of each split, then members
--
-- Returns {1, added}. Or {0, buckets, count}, and nothing is done, if the set
-- has another number of buckets, or too little room. See queue_push.

local stored = redis.call('HMGET', KEYS[1], 'buckets', 'count')
local buckets, count = tonumber(stored[1] or '1'), tonumber(stored[2] or '0')
local splits = tonumber(ARGV[3])
local first = 2 * splits + 1
local adding = #KEYS - first
if buckets ~= tonumber(ARGV[1]) or count + adding > tonumber(ARGV[2]) then
  return {0, buckets, count}
end
for i = 1, splits do
  local source, target, moved = KEYS[2 * i], KEYS[2 * i + 1], {}
  for _, member in ipairs(redis.call('SMEMBERS', source)) do
    if member >= ARGV[3 + i] then moved[#moved + 1] = member end
  end
  if #moved > 0 then
    redis.call('SREM', source, unpack(moved))
    redis.call('SADD', target, unpack(moved))
  end
end
local added = 0
for i = 1, adding do
  added = added + redis.call('SADD', KEYS[first + i], ARGV[3 + splits + i])
end
redis.call('HSET', KEYS[1], 'buckets', buckets + splits, 'count', count + added)
return {1, added}
