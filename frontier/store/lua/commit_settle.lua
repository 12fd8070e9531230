-- commit_settle: say that a round is committed, and add its counts, once.
-- include: clock
--
-- KEYS[1]  rounds      hash {open, committed, at_ms} of the crawl
-- KEYS[2]  committer   string: the random name of who commits a round; expires
-- KEYS[3]  uncommitted set of the crawls, and rounds, that are not committed
-- KEYS[4]  committed   set of the crawls that are
-- KEYS[5]  part        hash: the digests of the round that are not moved
-- KEYS[6]  part_counts hash: the counts of the round
-- KEYS[7]  counts      hash: those of the crawl's committed rounds
-- KEYS[8]  allcounts   hash: the sums of the counts of all that is committed
-- ARGV[1]  crawl       its id
-- ARGV[2]  token       the caller's, by which it is the committer
-- ARGV[3]  number      of the round
--
-- Returns 1; or 0, and does nothing, if the caller is not the committer, or digests are
-- left, or the round is committed or was canceled.

local part = ARGV[1] .. '~' .. ARGV[3]
if redis.call('GET', KEYS[2]) ~= ARGV[2] or redis.call('EXISTS', KEYS[5]) == 1
    or redis.call('SISMEMBER', KEYS[3], part) == 0 then
  return 0
end
local counts = redis.call('HGETALL', KEYS[6])
for i = 1, #counts, 2 do
  if string.match(counts[i + 1], '^-?%d+$') and #counts[i + 1] < 16 then
    redis.call('HINCRBY', KEYS[7], counts[i], counts[i + 1])
    redis.call('HINCRBY', KEYS[8], counts[i], counts[i + 1])
  end
end
redis.call('DEL', KEYS[6], KEYS[2])
redis.call('SREM', KEYS[3], part)
redis.call('SADD', KEYS[4], ARGV[1])
redis.call('HSET', KEYS[1], 'committed', ARGV[3], 'at_ms', now_text)
return 1
