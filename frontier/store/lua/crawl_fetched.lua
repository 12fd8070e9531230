-- crawl_fetched: say that the crawl has fetched a page, and of what host.
--
-- KEYS[1]  meta  hash {state, born, fetched, ...}
-- ARGV[1]  born   of the crawl that the caller knows; '' if it has none
-- ARGV[2]  origin  of the page: scheme, host and port
-- ARGV[3]  most   characters of all origins that are kept
--
-- Returns 1, or 0 and does nothing if that crawl is not there.

local meta = redis.call('HMGET', KEYS[1], 'state', 'born', 'fetched')
if not meta[1] or (meta[2] or '') ~= ARGV[1] then
  return 0
end
local known = meta[3] and meta[3] .. ' ' or ''
if #known + #ARGV[2] <= tonumber(ARGV[3]) and not known:find(ARGV[2] .. ' ', 1, true) then
  redis.call('HSET', KEYS[1], 'fetched', known .. ARGV[2])
end
return 1
