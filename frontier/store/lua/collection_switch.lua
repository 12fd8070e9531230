-- collection_switch: put the index that a purge has built in the place of the old.
--
-- KEYS[1]  alldupes    hash: payload digest to the crawl that has its original
-- KEYS[2]  allcounts   hash: the sums of the counts of all committed crawls
-- KEYS[3]  committed   set of the crawls that are committed
-- KEYS[4]  done        set of the names of the sources in the index
-- KEYS[5]  shadow      of KEYS[1]
-- KEYS[6]  shadow      of KEYS[2]
-- KEYS[7]  shadow      of KEYS[3]
-- KEYS[8]  shadow      of KEYS[4]
-- KEYS[9]  uncommitted set of the crawls that are not committed
-- KEYS[10]  importing  hash: name of a source to its WACZ index
-- KEYS[11]  committer string: the random name of who purges; expires
-- KEYS[12...]  of each crawl that goes: its digests, its counts, its files, its rounds
-- ARGV[1]  digests     how many were in KEYS[1] when the purge began
-- ARGV[2]  crawls      how many were in KEYS[3]
-- ARGV[3]  sources     how many were in KEYS[4]
-- ARGV[4]  urls        'totalUrls' of KEYS[2], '' if it had none
-- ARGV[5]  token       the caller's, by which it is the committer
-- ARGV[6]  running     how many were in KEYS[9], all of them rounds
--
-- Returns 1; 0, and does nothing, if another crawl runs or a source is imported; -1,
-- and does nothing, if the index is not what it was, or may be changed by others.

if redis.call('SCARD', KEYS[9]) ~= tonumber(ARGV[6]) or redis.call('HLEN', KEYS[10]) > 0 then
  return 0
end
if redis.call('GET', KEYS[11]) ~= ARGV[5] or redis.call('HLEN', KEYS[1]) ~= tonumber(ARGV[1])
  or redis.call('SCARD', KEYS[3]) ~= tonumber(ARGV[2])
  or redis.call('SCARD', KEYS[4]) ~= tonumber(ARGV[3])
  or (redis.call('HGET', KEYS[2], 'totalUrls') or '') ~= ARGV[4] then
  return -1
end
for old, new in pairs({
  [KEYS[1]] = KEYS[5], [KEYS[2]] = KEYS[6], [KEYS[3]] = KEYS[7], [KEYS[4]] = KEYS[8],
}) do
  if redis.call('EXISTS', new) == 1 then
    redis.call('RENAME', new, old)
  else
    redis.call('UNLINK', old)
  end
end
for i = 12, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1
