-- commit_end: say that a crawl, all of whose rounds are committed, is committed.
--
-- KEYS[1]  rounds      hash {open, committed, at_ms} of the crawl
-- KEYS[2]  uncommitted set of the crawls, and rounds, that are not committed
-- KEYS[3]  part        hash: the digests of the open round
-- KEYS[4]  counts      hash: its counts
-- KEYS[5]  waczs       list of JSON: the crawl's WACZ files
-- KEYS[6]  done        set of the names of the WACZ files in the index
-- ARGV[1]  crawl       its id
-- ARGV[2]  open        the number of the open round
--
-- Returns 1; or 0, and does nothing, if another round is open, or one is not committed.

local rounds = redis.call('HMGET', KEYS[1], 'open', 'committed')
if rounds[1] ~= ARGV[2] or tonumber(rounds[2] or '0') ~= tonumber(ARGV[2]) - 1
    or redis.call('EXISTS', KEYS[3], KEYS[4]) > 0 then
  return 0
end
for _, text in ipairs(redis.call('LRANGE', KEYS[5], 0, -1)) do
  local ok, wacz = pcall(cjson.decode, text)
  if ok and type(wacz) == 'table' and type(wacz.filename) == 'string' then
    redis.call('SADD', KEYS[6], wacz.filename)
  end
end
redis.call('SREM', KEYS[2], ARGV[1] .. '~' .. ARGV[2])
redis.call('HDEL', KEYS[1], 'open')
redis.call('HSET', KEYS[1], 'committed', ARGV[2])
return 1
