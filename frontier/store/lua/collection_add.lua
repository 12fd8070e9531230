-- collection_add: put what a crawl has stored into the round that is open, or count it.
-- include: numbers
--
-- KEYS[1]  rounds  hash {open, ...} of the crawl; none if it has no rounds
-- KEYS[2]  part    hash: payload digest to its value, of the round that the caller knows
-- KEYS[3]  counts  hash: the counts of that round
-- KEYS[4]  committed set of the crawls that are
-- KEYS[5]  allcounts hash: the sums of the counts of all that is committed
-- KEYS[6]  alldupes hash: payload digest to the committed crawl that has its original
-- ARGV[1]  name    of that round, or of the crawl
-- ARGV[2]  open    the number of that round; '' if these are the crawl's own
-- ARGV[3]  urls    captures to be counted
-- ARGV[4]  dupes   how many of these are revisits
-- ARGV[5]  saved   the bytes that these left out
-- ARGV[6...]  entries  payload digest, value, payload digest, value, ...
--
-- Returns the number of the round that is open, '' for none; if it is not the one that
-- the caller knows, nothing is done. A digest that is there keeps its value. What a crawl
-- adds that was committed meanwhile is seen by all crawls, and in the sums, at once.

local open = redis.call('HGET', KEYS[1], 'open')
local why = no_number(1, {'open'}, {open})
if why then
  return redis.error_reply(why)
end
open = open or ''
if open ~= ARGV[2] then
  return open
end
local summed = open == '' and redis.call('SISMEMBER', KEYS[4], ARGV[1]) == 1
for i = 6, #ARGV, 2 do
  redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1])
  if summed then redis.call('HSETNX', KEYS[6], ARGV[i], ARGV[1]) end
end
for name, value in pairs({totalUrls = ARGV[3], dupeUrls = ARGV[4], conservedSize = ARGV[5]}) do
  if value ~= '0' then
    redis.call('HINCRBY', KEYS[3], name, value)
    if summed then redis.call('HINCRBY', KEYS[5], name, value) end
  end
end
return open
