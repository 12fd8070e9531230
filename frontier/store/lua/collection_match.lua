-- collection_match: count what the revisits left out that came before their original.
--
-- KEYS[1]  rev count hash: crawl to how many of its revisits wait for the original
-- KEYS[2]  rev size  hash: crawl to the size of their records
-- KEYS[3]  allcounts hash: the sums of the counts of all committed crawls
-- KEYS[4...]         the counts of each crawl that has such revisits
-- ARGV[1]  size      of the original's record
-- ARGV[2...]         the ids of those crawls
--
-- Returns 1, or 0 and does nothing if other crawls have such revisits.

if redis.call('HLEN', KEYS[1]) ~= #ARGV - 1 then
  return 0
end
local sizes, counts, all = {}, {}, 0
for i = 2, #ARGV do
  counts[i] = tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or '')
  sizes[i] = tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or '0') or 0
  if not counts[i] then
    return 0
  end
end
for i = 2, #ARGV do
  local left_out = counts[i] * tonumber(ARGV[1]) - sizes[i]
  all = all + left_out
  if left_out > 0 then
    redis.call('HINCRBY', KEYS[i + 2], 'conservedSize', string.format('%.0f', left_out))
  end
end
if all > 0 then
  redis.call('HINCRBY', KEYS[3], 'conservedSize', string.format('%.0f', all))
end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
