-- crawl_fetched: say that the crawl has fetched a page.
--
-- KEYS[1]  meta  hash {state, born, fetched, ...}
-- ARGV[1]  born  of the crawl that the caller knows; '' if it has none
--
-- Returns 1, or 0 and does nothing if that crawl is not there.

local meta = redis.call('HMGET', KEYS[1], 'state', 'born')
if not meta[1] or (meta[2] or '') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'fetched', 1)
return 1
