-- reports_fold: put the reports of nodes that are gone into one sum.
--
-- KEYS[1]  reports  hash: node id to JSON
-- KEYS[2]  nodes    hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- ARGV[1]  sum      the field that has the sum
-- ARGV[2]  before   its value, as the caller has read it; '' if there was none
-- ARGV[3]  after    its new value, JSON
-- ARGV[4...]  gone  node id, its report as the caller has read it, node id, ...
--
-- Returns 1; or 0, and does nothing, if one of the values is another by now, or one of
-- the nodes is on the map.

if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then
  return 0
end
for i = 4, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1]
      or redis.call('HEXISTS', KEYS[2], ARGV[i]) == 1 then
    return 0
  end
end
for i = 4, #ARGV, 2 do
  redis.call('HDEL', KEYS[1], ARGV[i])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
