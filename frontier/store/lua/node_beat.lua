-- node_beat: say that a node lives, and learn who else does.
--
-- KEYS[1]  nodes    hash: node id to '<beat, server ms> <weight> <busy>'
-- KEYS[2]  epoch    integer
-- KEYS[3]  reports  hash: node id to JSON
-- KEYS[4]  meta     hash {state, ...} of the crawl
-- KEYS[5]  order    string: what an operator wants of this node
-- ARGV[1]  node     node id
-- ARGV[2]  weight   its weight in the ring; 0 while it leaves
-- ARGV[3]  ttl_ms   a node that was silent for longer is dead
-- ARGV[4]  busy     1 while the node has work that is not in the store, else 0
-- ARGV[5]  report   JSON; '' leaves the last one
-- ARGV[6]  joining  1 with the first beat of a process, else 0
--
-- Returns {epoch, state, order, node, weight, node, weight, ...}.
-- The epoch grows when the set of live nodes, or a weight, changes. What was
-- ordered of an earlier process of the same name is forgotten. A node that is
-- to be removed does not get onto the map any more.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local limit = now - tonumber(ARGV[3])
if ARGV[6] == '1' then
  redis.call('DEL', KEYS[5])
end
local order = redis.call('GET', KEYS[5]) or ''
local reply = {0, redis.call('HGET', KEYS[4], 'state') or '', order}
local changed, known = false, false

local nodes = redis.call('HGETALL', KEYS[1])
for i = 1, #nodes, 2 do
  local beat, weight = string.match(nodes[i + 1], '^(%d+) (%d+)')
  if nodes[i] == ARGV[1] then
    known = weight == ARGV[2]
  elseif tonumber(beat) < limit then
    redis.call('HDEL', KEYS[1], nodes[i])
    changed = true
  else
    table.insert(reply, nodes[i])
    table.insert(reply, weight)
  end
end
if order == 'remove' then
  changed, known = changed or redis.call('HDEL', KEYS[1], ARGV[1]) == 1, true
else
  table.insert(reply, ARGV[1])
  table.insert(reply, ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s', now, ARGV[2], ARGV[4]))
end
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[5])
end
if changed or not known then
  redis.call('INCR', KEYS[2])
end
reply[1] = tonumber(redis.call('GET', KEYS[2]) or '0')
return reply
