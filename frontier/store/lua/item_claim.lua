-- item_claim: say of which page an item is, unless one with its id is there.
--
-- KEYS[1]  counts  hash {born, ...}
-- KEYS[2]  items   hash: digest of an item's id to the mark of its page
-- ARGV[1]  born    of the crawl that the caller knows; '' if it has none
-- ARGV[2]  id      digest
-- ARGV[3]  page    mark
--
-- Returns the mark of the page that has the id, which is the caller's if it is new. Or ''
-- and does nothing, if that crawl is not there.

if (redis.call('HGET', KEYS[1], 'born') or '') ~= ARGV[1] then return '' end
redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3])
return redis.call('HGET', KEYS[2], ARGV[2])
