-- collection_cancel: forget what an uncommitted crawl has put into the index.
--
-- KEYS[1]  uncommitted set of the crawls that are not committed
-- KEYS[2]  canceled    set of those that are not to be
-- KEYS[3]  committing  hash: how far the commit is
-- KEYS[4]  crawl       hash: payload digest to its value
-- KEYS[5]  counts      hash: the crawl's counts
-- KEYS[6]  waczs       list of JSON: the crawl's WACZ files
-- ARGV[1]  crawl       its id
-- ARGV[2]  running     '1' if its nodes may still add to it
--
-- Returns 1 if nothing is left of it, 2 if its nodes will forget it when they
-- end, 0 if it is not uncommitted, -1 if its commit has begun: others may
-- already refer to its payloads.

if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return -1
end
if ARGV[2] == '1' then
  redis.call('SADD', KEYS[2], ARGV[1])
  return 2
end
redis.call('UNLINK', KEYS[4], KEYS[5], KEYS[6])
redis.call('SREM', KEYS[1], ARGV[1])
redis.call('SREM', KEYS[2], ARGV[1])
return 1
