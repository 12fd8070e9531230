-- start_acquire: become the one node that loads a seed list.
--
-- KEYS[1]  starts    hash: digest of a seed list to 'done'
-- KEYS[2]  lock      string: the node that loads it
-- ARGV[1]  start_id  digest of the seed list
-- ARGV[2]  holder    node id
-- ARGV[3]  ttl_ms    how long the lock lives
--
-- Returns 'done', 'yours' or 'taken'. Also renews: the holder calls it again.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return 'done'
end
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[2] then
  return 'taken'
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 'yours'
