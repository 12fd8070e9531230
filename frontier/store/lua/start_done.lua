-- start_done: say that a seed list is loaded; it is never loaded again.
--
-- KEYS[1]  starts    hash: digest of a seed list to 'done'
-- KEYS[2]  lock      string: the node that loaded it
-- ARGV[1]  start_id  digest of the seed list
--
-- Returns 1.

redis.call('HSET', KEYS[1], ARGV[1], 'done')
redis.call('DEL', KEYS[2])
return 1
