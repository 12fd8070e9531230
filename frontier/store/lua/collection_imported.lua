-- collection_imported: say that a source is in the index, once.
--
-- KEYS[1]  importing hash: name of a source to '<WACZ index> <lines>'
-- KEYS[2]  done      set of the names of the sources in the index
-- KEYS[3]  committed set of the crawls that are committed
-- KEYS[4]  waczs     list of JSON: the crawl's WACZ files
-- KEYS[5]  counts    hash: the crawl's counts
-- KEYS[6]  allcounts hash: the sums of the counts of all committed crawls
-- KEYS[7]  queue     list of JSON: the sources that wait
-- KEYS[8]  queued    set of their names
-- ARGV[1]  name      of the source
-- ARGV[2]  crawl     the crawl's id
-- ARGV[3]  entry     JSON: what stands for it in the list
-- ARGV[4]  appended  '1' if its place is there already
-- ARGV[5]  size      of the source in bytes, 0 if it is not known
-- ARGV[6]  waiting   JSON: what stands for it in the queue
--
-- Returns 1 if this call said so, 0 if it was in the index before.

redis.call('LREM', KEYS[7], 0, ARGV[6])
redis.call('SREM', KEYS[8], ARGV[1])
local at = redis.call('HGET', KEYS[1], ARGV[1])
if not at then
  return 0
end
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[2])
if ARGV[4] == '1' then
  redis.call('LSET', KEYS[4], string.match(at, '^%d+'), ARGV[3])
else
  redis.call('RPUSH', KEYS[4], ARGV[3])
end
if tonumber(ARGV[5]) > 0 then
  redis.call('HINCRBY', KEYS[5], 'totalCrawlSize', ARGV[5])
  redis.call('HINCRBY', KEYS[6], 'totalCrawlSize', ARGV[5])
end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
