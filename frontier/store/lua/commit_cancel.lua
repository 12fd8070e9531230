-- commit_cancel: forget those digests of a crawl that no round has committed.
--
-- KEYS[1]  rounds      hash {open, committed, at_ms} of the crawl
-- KEYS[2]  uncommitted set of the crawls, and rounds, that are not committed
-- KEYS[3]  canceled    set of the crawls that are not to be committed
-- KEYS[4]  part        hash: the digests of the open round, or of the crawl if it has none
-- KEYS[5]  counts      hash: its counts
-- KEYS[6]  before      hash: the digests of the round before, as far as they are not moved;
--                      or the list of the files of a crawl without rounds
-- KEYS[7]  counts_b    hash: its counts; or KEYS[5] again
-- ARGV[1]  crawl       its id
-- ARGV[2]  open        the number of the open round; '' if it has no rounds
-- ARGV[3]  part        what the open round is called in the set, or the crawl
-- ARGV[4]  before      what the round before is called there, or the crawl
-- ARGV[5]  running     '1' if its nodes may still add to it
--
-- Returns 1 if they are forgotten, 2 if its nodes will do so when they end, 0, and does
-- nothing, if another round is open, or all of the crawl is committed.

if (redis.call('HGET', KEYS[1], 'open') or '') ~= ARGV[2]
    or redis.call('SISMEMBER', KEYS[2], ARGV[3]) == 0 then
  return 0
end
if ARGV[5] == '1' then
  redis.call('SADD', KEYS[3], ARGV[1])
  return 2
end
redis.call('UNLINK', KEYS[4], KEYS[5], KEYS[6], KEYS[7])
redis.call('SREM', KEYS[2], ARGV[3], ARGV[4])
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[1], 'open')
return 1
