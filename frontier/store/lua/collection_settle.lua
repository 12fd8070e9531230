-- collection_settle: say that a crawl is committed, and add its counts, once.
--
-- KEYS[1]  committed   set of the crawls that are
-- KEYS[2]  uncommitted set of those that are not
-- KEYS[3]  canceled    set of those that are not to be
-- KEYS[4]  counts      hash: the crawl's counts
-- KEYS[5]  allcounts   hash: the sums of the counts of all committed crawls
-- KEYS[6]  waczs       list of JSON: the crawl's WACZ files
-- KEYS[7]  done        set of the names of the WACZ files in the index
-- KEYS[8]  committing  hash: how far the commit is
-- ARGV[1]  crawl       its id
--
-- Returns 1 if this call settled it, 2 if it was settled before, 0 if the crawl
-- was canceled.

if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 1 then
  return 0
end
redis.call('DEL', KEYS[8])
redis.call('SREM', KEYS[2], ARGV[1])
local first = redis.call('SADD', KEYS[1], ARGV[1])
for _, text in ipairs(redis.call('LRANGE', KEYS[6], 0, -1)) do
  local ok, wacz = pcall(cjson.decode, text)
  if ok and type(wacz) == 'table' and type(wacz.filename) == 'string' then
    redis.call('SADD', KEYS[7], wacz.filename)
  end
end
if first == 0 then
  return 2
end
local counts = redis.call('HGETALL', KEYS[4])
for i = 1, #counts, 2 do
  if string.match(counts[i + 1], '^-?%d+$') and #counts[i + 1] < 16 then
    redis.call('HINCRBY', KEYS[5], counts[i], counts[i + 1])
  end
end
return 1
