-- node_leave: take a node off the membership map.
-- include: clock membership_log
--
-- KEYS[1]  nodes    hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- KEYS[2]  epoch    integer
-- KEYS[3]  reports  hash: node id to JSON
-- KEYS[4]  hints    list of the leaving node
-- KEYS[5]  order    string: what an operator wants of the leaving node
-- KEYS[6]  meta     hash {born, ...} of the crawl
-- KEYS[7]  log      list of what has happened to the members
-- ARGV[1]  node     node id
-- ARGV[2]  report   JSON of its last report
-- ARGV[3]  born     of the crawl that the node was in; '' if it has none
-- ARGV[4]  process  what tells its process from others with its id
--
-- Returns how many nodes are left, or -1 and does nothing if that crawl is not
-- there any more. Where another process beats under its id, only that is counted.

local meta = redis.call('HMGET', KEYS[6], 'state', 'born')
if not meta[1] or (meta[2] or '') ~= ARGV[3] then
  return -1
end
local left = redis.call('HLEN', KEYS[1]) -- before it may vanish, as slots move
local value = redis.call('HGET', KEYS[1], ARGV[1])
local process = string.match(value or '', '^%d+ %d+ %d (%w+)')
if process and process ~= ARGV[4] then
  return left
end
if value then
  left = left - 1
  redis.call('HDEL', KEYS[1], ARGV[1])
  local epoch = redis.pcall('INCR', KEYS[2])
  if type(epoch) == 'table' then
    redis.call('DEL', KEYS[2]) -- not ours; the next beat of each node reads the map
    epoch = 0
  end
  note(KEYS[7], string.format('%.0f', epoch), 'left', '0', {ARGV[1]})
end
redis.pcall('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('DEL', KEYS[4], KEYS[5])
return left
