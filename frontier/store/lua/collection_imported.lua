-- collection_imported: say that a source is in the index, and add its counts, once.
--
-- KEYS[1]  importing hash: name of a source to its WACZ index
-- KEYS[2]  done      set of the names of the sources in the index
-- KEYS[3]  committed set of the crawls that are committed
-- KEYS[4]  waczs     list of JSON: the crawl's WACZ files
-- KEYS[5]  counts    hash: the crawl's counts
-- KEYS[6]  allcounts hash: the sums of the counts of all committed crawls
-- ARGV[1]  name      of the source
-- ARGV[2]  crawl     the crawl's id
-- ARGV[3]  entry     JSON: what stands for it in the list
-- ARGV[4]  appended  '1' if its place is there already
-- ARGV[5]  urls      captures in the source
-- ARGV[6]  dupes     how many of these are revisits
-- ARGV[7]  saved     bytes that these left out, at least
-- ARGV[8]  size      of the source in bytes, 0 if it is not known
-- ARGV[9]  redundant captures whose payload was in the index before
-- ARGV[10]  wasted    their bytes
--
-- Returns 1 if this call said so, 0 if it was in the index before.

local at = redis.call('HGET', KEYS[1], ARGV[1])
if not at then
  return 0
end
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[2])
if ARGV[4] == '1' then
  redis.call('LSET', KEYS[4], at, ARGV[3])
else
  redis.call('RPUSH', KEYS[4], ARGV[3])
end
for name, value in pairs({
  totalUrls = ARGV[5], dupeUrls = ARGV[6], conservedSize = ARGV[7], totalCrawlSize = ARGV[8],
}) do
  if value ~= '0' then
    redis.call('HINCRBY', KEYS[5], name, value)
    redis.call('HINCRBY', KEYS[6], name, value)
  end
end
for name, value in pairs({redundantUrls = ARGV[9], estimatedRedundantSize = ARGV[10]}) do
  if value ~= '0' then redis.call('HINCRBY', KEYS[6], name, value) end
end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
