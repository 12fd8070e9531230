-- site_refetch: have the next round of a site ask for a page, and begin it now.
-- include: clock
--
-- KEYS[1]  sites   sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site    hash {state, want, round, emitted, wait, ...} of one site
-- KEYS[3]  failed  hash: fingerprint of a page that is asked for again to what it is
-- ARGV[1]  name    of the site
-- ARGV[2]  id      fingerprint of the page
-- ARGV[3]  page    what is kept of it
--
-- Returns the state of the site; '' if it is none of this crawl, and nothing is done.

local state, whole = unpack(redis.call('HMGET', KEYS[2], 'state', 'whole'))
if not state then
  return ''
end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
if state == 'waiting' or (state == 'crawling' and whole == '1') then
  redis.call('ZADD', KEYS[1], 'XX', now_text, ARGV[1])
end
return state
