-- collection_add: put what a crawl has stored into the round that is open, or count it.
-- include: numbers
--
-- KEYS[1]  rounds  hash {open, ...} of the crawl; none if it has no rounds
-- KEYS[2]  part    hash: payload digest to its value, of the round that the caller knows
-- KEYS[3]  counts  hash: the counts of that round
-- ARGV[1]  open    the number of that round; '' if these are the crawl's own
-- ARGV[2]  urls    captures to be counted
-- ARGV[3]  dupes   how many of these are revisits
-- ARGV[4]  saved   the bytes that these left out
-- ARGV[5...]  entries  payload digest, value, payload digest, value, ...
--
-- Returns the number of the round that is open, '' for none; if it is not the one that
-- the caller knows, nothing is done. A digest that is there keeps its value.

local open = redis.call('HGET', KEYS[1], 'open')
local why = no_number(1, {'open'}, {open})
if why then
  return redis.error_reply(why)
end
open = open or ''
if open ~= ARGV[1] then
  return open
end
for i = 5, #ARGV, 2 do
  redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1])
end
for name, value in pairs({totalUrls = ARGV[2], dupeUrls = ARGV[3], conservedSize = ARGV[4]}) do
  if value ~= '0' then
    redis.call('HINCRBY', KEYS[3], name, value)
  end
end
return open
