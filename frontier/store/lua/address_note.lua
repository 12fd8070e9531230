-- address_note: keep the first address that a crawl has for a host.
--
-- KEYS[1]  meta       hash {state, born, ...} of the crawl
-- KEYS[2]  addresses  hash: host to its address
-- ARGV[1]  born       the crawl's mark, or '' if it has none
-- ARGV[2]  host       whose address it is
-- ARGV[3]  address    of it
--
-- Returns the address that is kept. Or nil, and does nothing, if that crawl is not
-- there any more.

local state, born = unpack(redis.call('HMGET', KEYS[1], 'state', 'born'))
if not state or (born or '') ~= ARGV[1] then
  return false
end
redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3])
return redis.call('HGET', KEYS[2], ARGV[2])
