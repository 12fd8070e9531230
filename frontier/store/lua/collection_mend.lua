-- collection_mend: end that a digest leads to a crawl that does not have it.
--
-- KEYS[1]  alldupes hash: payload digest to the crawl that has its original
-- KEYS[2]  owner    hash of the crawl that it leads to: payload digest to its value
-- KEYS[3]  heir     hash of a crawl that it may lead to instead, or KEYS[2] again
-- ARGV[1]  digest   the payload digest
-- ARGV[2]  owner    the id of the crawl that it leads to
-- ARGV[3]  heir     the id of the other
-- ARGV[4]  removed  '1' if the owner is to have it no more from now on
--
-- Returns 1 if it leads to the heir now, or nowhere if the heir does not have it
-- either; 0, and leaves what it leads to, if it was not as the caller knows.

if ARGV[4] == '1' then
  redis.call('HDEL', KEYS[2], ARGV[1])
end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
  return 0
end
if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
