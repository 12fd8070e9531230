-- start_done: say that a seed list is loaded; it is never loaded again.
--
-- KEYS[1]  seed_lists  hash: digest of a seed list to 'done'
-- KEYS[2]  lock      string: the node that loaded it
-- KEYS[3]  meta      hash {state, born, ...}
-- ARGV[1]  start_id  digest of the seed list
-- ARGV[2]  born      of the crawl; '' if it has none
--
-- Returns 1, or 0 and does nothing if that crawl is not there.

local meta = redis.call('HMGET', KEYS[3], 'state', 'born')
if not meta[1] or (meta[2] or '') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], 'done')
redis.call('DEL', KEYS[2])
return 1
