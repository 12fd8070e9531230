-- commit_move: let all crawls see some digests of a round, which become the crawl's.
--
-- KEYS[1]  committer string: the random name of who commits a round; expires
-- KEYS[2]  canceled  set of the crawls that are not to be committed
-- KEYS[3]  committed set of the crawls that are
-- KEYS[4]  alldupes  hash: payload digest to the crawl that has its original
-- KEYS[5]  crawl     hash: payload digest to its value, of the crawl's committed rounds
-- KEYS[6]  part      the same of the round
-- ARGV[1]  crawl     its id
-- ARGV[2]  token     the caller's, by which it is the committer
-- ARGV[3]  ttl_ms    for how long from now, if nothing is heard of it
-- ARGV[4]  cursor    where to go on in the round; '0' at first
-- ARGV[5]  count     about how many digests to move
--
-- Returns {cursor, moved, added, left}; or {'held'} or {'canceled'}, and does nothing.
-- A digest is in one of the two hashes at any time, and a digest that is there is kept.

if redis.call('GET', KEYS[1]) ~= ARGV[2] then
  return {'held'}
end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then
  redis.call('DEL', KEYS[1])
  return {'canceled'}
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local left = redis.call('HLEN', KEYS[6]) -- before it may vanish, as slots move
local found = redis.call('HSCAN', KEYS[6], ARGV[4], 'COUNT', ARGV[5])
local fields, added = found[2], 0
for i = 1, #fields, 2 do
  added = added + redis.call('HSETNX', KEYS[4], fields[i], ARGV[1])
  redis.call('HSETNX', KEYS[5], fields[i], fields[i + 1])
  left = left - redis.call('HDEL', KEYS[6], fields[i])
end
if #fields > 0 then
  redis.call('SADD', KEYS[3], ARGV[1])
end
return {found[1], #fields / 2, added, left}
