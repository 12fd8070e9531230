-- node_leave: take a node off the membership map.
--
-- KEYS[1]  nodes    hash: node id to '<beat, server ms> <weight> <busy>'
-- KEYS[2]  epoch    integer
-- KEYS[3]  reports  hash: node id to JSON
-- KEYS[4]  hints    list of the leaving node
-- KEYS[5]  order    string: what an operator wants of the leaving node
-- ARGV[1]  node     node id
-- ARGV[2]  report   JSON of its last report
--
-- Returns how many nodes are left.

if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
  redis.call('INCR', KEYS[2])
end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('DEL', KEYS[4], KEYS[5])
return redis.call('HLEN', KEYS[1])
