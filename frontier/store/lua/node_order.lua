-- node_order: want something of a live node, which its next heartbeat reads.
--
-- KEYS[1]  nodes   hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- KEYS[2]  order   string
-- ARGV[1]  node    node id
-- ARGV[2]  order   what is wanted
-- ARGV[3]  ttl_s   after how many seconds it is not wanted any more
--
-- Returns 1, or 0 if the node is not on the map.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
