-- collection_import: put some captures of a source into the index, once.
--
-- KEYS[1]  alldupes  hash: payload digest to the crawl that has its original
-- KEYS[2]  crawl     hash: payload digest to its value
-- KEYS[3]  counts    hash: the crawl's counts
-- KEYS[4]  allcounts hash: the sums of the counts of all committed crawls
-- KEYS[5]  importing hash: name of a source to '<WACZ index> <lines>'
-- KEYS[6...]         of each revisit without an original: its rev count, its rev size
-- ARGV[1]  crawl     its id
-- ARGV[2]  name      of the source
-- ARGV[3]  before    '<WACZ index> <lines>', as it must be now
-- ARGV[4]  after     the same, as it is when this is done
-- ARGV[5]  revisits  how many there are
-- ARGV[6]  conserved bytes that those of them with a known original leave out
-- ARGV[7]  free      bytes of a redundant record that are not counted
-- ARGV[8...]         the size of each revisit without an original; then digest,
--                    value and size of each original
--
-- Returns 1, or 0 and does nothing if the source is at another line.

if redis.call('HGET', KEYS[5], ARGV[2]) ~= ARGV[3] then
  return 0
end
local free, place = tonumber(ARGV[7]), 8
for i = 6, #KEYS, 2 do
  redis.call('HINCRBY', KEYS[i], ARGV[1], 1)
  redis.call('HINCRBY', KEYS[i + 1], ARGV[1], ARGV[place])
  place = place + 1
end
local originals, redundant, wasted = 0, 0, 0
for i = place, #ARGV, 3 do
  if redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[1]) == 0 then
    local size = tonumber(ARGV[i + 2])
    if size > free then
      redundant = redundant + 1
      wasted = wasted + size - free
    end
  end
  redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1])
  originals = originals + 1
end
local revisits, conserved = tonumber(ARGV[5]), tonumber(ARGV[6])
local total = originals + revisits
for _, key in ipairs({KEYS[3], KEYS[4]}) do
  if total > 0 then redis.call('HINCRBY', key, 'totalUrls', total) end
  if revisits > 0 then redis.call('HINCRBY', key, 'dupeUrls', revisits) end
  if conserved > 0 then
    redis.call('HINCRBY', key, 'conservedSize', string.format('%.0f', conserved))
  end
end
if redundant > 0 then
  redis.call('HINCRBY', KEYS[4], 'redundantUrls', redundant)
  redis.call('HINCRBY', KEYS[4], 'estimatedRedundantSize', string.format('%.0f', wasted))
end
redis.call('HSET', KEYS[5], ARGV[2], ARGV[4])
return 1
