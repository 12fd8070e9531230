-- sitemap_note: remember what a sitemap named when it was read last.
--
-- KEYS[1]  meta      hash {state, born, ...} of the crawl
-- KEYS[2]  sitemaps  hash: URL of a sitemap to what it named
-- ARGV[1]  born      the crawl's mark, or '' if it has none
-- ARGV[2]  url       of the sitemap
-- ARGV[3]  named     the hashes of its URLs and dates
--
-- Returns 1. Or 0, and does nothing, if that crawl is not there any more.

local state, born = unpack(redis.call('HMGET', KEYS[1], 'state', 'born'))
if not state or (born or '') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1
