-- commit_end: say that a crawl, all of whose rounds are committed, is committed.
--
-- KEYS[1]  rounds      hash {open, committed, at_ms} of the crawl
-- KEYS[2]  uncommitted set of the crawls, and rounds, that are not committed
-- KEYS[3]  committed   set of the crawls that are
-- KEYS[4]  part        hash: the digests of the open round, or of the crawl if it has none
-- KEYS[5]  counts      hash: its counts
-- KEYS[6]  waczs       list of JSON: the crawl's WACZ files
-- KEYS[7]  done        set of the names of the WACZ files in the index
-- ARGV[1]  crawl       its id
-- ARGV[2]  open        the number of the open round; '' if it has no rounds: it is empty
-- ARGV[3]  part        what the open round is called in the set, or the crawl
--
-- Returns 1; or 0, and does nothing, if another round is open, or one is not committed.

local rounds = redis.call('HMGET', KEYS[1], 'open', 'committed')
if (rounds[1] or '') ~= ARGV[2] or redis.call('EXISTS', KEYS[4], KEYS[5]) > 0
    or tonumber(rounds[2] or '0') ~= tonumber(rounds[1] or '1') - 1 then
  return 0
end
for _, text in ipairs(redis.call('LRANGE', KEYS[6], 0, -1)) do
  local ok, wacz = pcall(cjson.decode, text)
  if ok and type(wacz) == 'table' and type(wacz.filename) == 'string' then
    redis.call('SADD', KEYS[7], wacz.filename)
  end
end
redis.call('SREM', KEYS[2], ARGV[3])
redis.call('SADD', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[1], 'open')
redis.call('HSET', KEYS[1], 'committed', rounds[1] or '1')
return 1
