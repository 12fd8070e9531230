-- collection_commit: offer some of a crawl's payload digests to all crawls.
--
-- KEYS[1]  alldupes  hash: payload digest to the crawl that has its original
-- KEYS[2]  crawl     hash: payload digest to its value
-- KEYS[3]  canceled  set of the crawls that are not to be committed
-- KEYS[4]  committing hash {cursor, server}: how far the commit is
-- ARGV[1]  crawl     its id
-- ARGV[2]  cursor    where to go on in the hash; '0' at first
-- ARGV[3]  count     about how many digests to offer
-- ARGV[4]  server    the run of the server and the crawl's digests, where a cursor means something
--
-- Returns {cursor, digests, added}; the cursor is '0' at the end. Or {}, and
-- nothing is done, if the crawl was canceled. A digest that is there is kept.

if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 1 then
  return {}
end
local found = redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
local fields, added = found[2], 0
for i = 1, #fields, 2 do
  added = added + redis.call('HSETNX', KEYS[1], fields[i], ARGV[1])
end
redis.call('HSET', KEYS[4], 'cursor', found[1], 'server', ARGV[4])
return {found[1], #fields / 2, added}
