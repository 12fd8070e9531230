-- node_remove: take a node off the membership map, whether it likes it or not.
-- include: clock membership_log
--
-- KEYS[1]  nodes   hash: node id to '<beat, server ms> <weight> <busy> <process> <number> <ttl>'
-- KEYS[2]  epoch   integer
-- KEYS[3]  hints   list of the node
-- KEYS[4]  order   string: what is wanted of the node, should it still live
-- KEYS[5]  log     list of what has happened to the members
-- ARGV[1]  node    node id
-- ARGV[2]  force   1 to remove a live one, too, else 0
-- ARGV[3]  keep_s  for how many seconds the node is told to go
--
-- Returns 1, 0 if it is not on the map, or -1 if it lives and force is 0. An entry that
-- cannot be is that of a dead node.

local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value then
  return 0
end
local beat, ttl = string.match(value, '^(%d+) %d+ %d %w+ %d+ (%d+)$')
if ARGV[2] ~= '1' and beat and math.abs(now - tonumber(beat)) <= tonumber(ttl) then
  return -1
end
redis.call('HDEL', KEYS[1], ARGV[1])
local epoch = redis.call('INCR', KEYS[2])
note(KEYS[5], string.format('%.0f', epoch), 'removed', '0', {ARGV[1]})
redis.call('DEL', KEYS[3])
redis.call('SET', KEYS[4], 'remove', 'EX', ARGV[3])
return 1
