-- collection_claim: have a crawl's name in a collection belong to one store.
--
-- KEYS[1]  owners      hash: crawl id to the store that it is of
-- KEYS[2]  committed   set of the crawls that are committed
-- KEYS[3]  uncommitted set of the crawls that are not
-- ARGV[1]  crawl       its id
-- ARGV[2]  store       the random name of the crawl's store and namespace
-- ARGV[3]  known       '0' if the store has no such crawl yet, '1' if it has, '2' if
--                      it was rebuilt there, the store that it was of being lost
--
-- Returns 1 if the name is the store's now, 0 if it is of another one, of a crawl that
-- was imported, or of one of the store that was deleted there.

local owner = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[3] == '0' and (redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1
    or redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 1) then
  return 0
end
if owner == ARGV[2] then
  return 1
end
if owner and ARGV[3] ~= '2' then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
