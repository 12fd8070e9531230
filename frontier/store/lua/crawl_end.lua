-- crawl_end: end a crawl whose spider says that it is done, whatever is queued.
-- include: clock
--
-- KEYS[1]  meta   hash {state, born, limit, finished_ms, ...}
-- ARGV[1]  born   of the crawl that the caller knows; '' if it has none
-- ARGV[2]  limit  what the crawl has ended at, '<name> <value>'
--
-- Returns the crawl's limit if it has ended at one, by this call or before; else ''.
-- A call that is repeated changes nothing.

local crawl = redis.call('HMGET', KEYS[1], 'state', 'born', 'limit')
if not crawl[1] or (crawl[2] or '') ~= ARGV[1] then return '' end
if crawl[1] == 'limit' then return crawl[3] or '' end
if crawl[1] ~= 'open' then return '' end
redis.call('HSET', KEYS[1], 'state', 'limit', 'limit', ARGV[2], 'finished_ms', now_text)
return ARGV[2]
