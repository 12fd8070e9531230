-- sites_due: the sites that are to be looked at now, the one that is due longest first.
-- include: clock
--
-- KEYS[1]  sites  sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  meta   hash {state, born, ...} of the crawl
-- ARGV[1]  most   so many at most
-- ARGV[2]  born   of the crawl that the caller knows; '' if it has none
--
-- Returns {now, next, name, ...}: next is when the next site is due, in ms like now; -1 if
-- none is, or the crawl is not open.

local meta = redis.call('HMGET', KEYS[2], 'state', 'born')
if meta[1] ~= 'open' or (meta[2] or '') ~= ARGV[2] then
  return {now_text, '-1'}
end
local names = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_text, 'LIMIT', 0, ARGV[1])
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now_text, '(+inf',
  'WITHSCORES', 'LIMIT', 0, 1)
local next_due = later[2] and string.format('%.0f', later[2]) or '-1'
return {now_text, next_due, unpack(names)}
