-- node_beat: say that a node lives, and learn who else does.
--
-- KEYS[1]  nodes    hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- KEYS[2]  epoch    integer
-- KEYS[3]  reports  hash: node id to JSON
-- KEYS[4]  meta     hash {state, born, swept_ms, resumed_ms, ...} of the crawl
-- KEYS[5]  order    string: what an operator wants of this node
-- ARGV[1]  node     node id
-- ARGV[2]  weight   its weight in the ring; 0 while it leaves
-- ARGV[3]  ttl_ms   a node that was silent for longer is dead
-- ARGV[4]  busy     1 while the node has work that is not in the store, else 0
-- ARGV[5]  report   JSON; '' leaves the last one
-- ARGV[6]  known    the epoch that it knows; less than 0 with the first beat of a process
-- ARGV[7]  born     of the crawl that it is in; '' if it has none
-- ARGV[8]  process  what tells its process from others with its id
--
-- Returns {epoch, state, order, node, weight, node, weight, ...}; without the
-- nodes if the epoch is the one that is known. Or {-1}, and does nothing, if that
-- crawl is not there any more; {-2} if another process beats under its id by now.
-- The epoch grows when the set of live nodes, or a weight, changes. What was
-- ordered of an earlier process of the same name is forgotten. A node that is
-- to be removed does not get onto the map any more.
-- A figure, an order or an epoch that cannot be is none; an entry of the map that
-- cannot be is that of a dead node.
-- The whole map is read by who does not know the epoch, and, to find the dead,
-- by one beat in a second: else the cost of all beats grew with the square of
-- the number of nodes. Where none did so for half of the ttl, the server was unreachable,
-- or its clock was set: every node then has the ttl from now on to beat again.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ttl, begins = tonumber(ARGV[3]), tonumber(ARGV[6]) < 0
local stamp = string.format('%.0f', now)
local crawl = redis.call('HMGET', KEYS[4], 'state', 'born', 'swept_ms', 'resumed_ms')
if not crawl[1] or (crawl[2] or '') ~= ARGV[7] then
  return {-1}
end
local own, process = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '',
  '^%d+ (%d+) %d ?(%w*)')
local epoch = redis.pcall('GET', KEYS[2]) or '0'
if type(epoch) == 'table' or not string.find(epoch, '^%d+$') or #epoch > 15 then
  epoch = stamp -- no node knows it, so that all read the map
  redis.call('SET', KEYS[2], epoch)
end
if not begins and process and process ~= ARGV[8] then
  return {-2}
end
local order = redis.pcall('GET', KEYS[5]) or ''
if order ~= 'drain' and order ~= 'remove' then order = '' end
if begins then
  redis.call('DEL', KEYS[5]) -- and is not read again: it may be gone as slots move
  order = ''
end
local swept = tonumber(crawl[3] or '')
local since = swept and math.abs(now - swept) or math.huge
local resumed = math.min(tonumber(crawl[4] or '') or 0, now)
if swept and since >= ttl / 2 and not begins then resumed = now end
local sweeps = since >= math.min(1000, ttl / 5)
if sweeps then
  redis.call('HSET', KEYS[4], 'swept_ms', stamp, 'resumed_ms', string.format('%.0f', resumed))
end
local changed, dead, members = own ~= ARGV[2], {}, {}

if sweeps or changed or order == 'remove'
  or epoch ~= ARGV[6] then
  local nodes = redis.call('HGETALL', KEYS[1])
  for i = 1, #nodes, 2 do
    local beat, weight, rest = string.match(nodes[i + 1], '^(%d+) (%d+)(.*)$')
    local named = #nodes[i] <= 100 and string.find(nodes[i], '^%w[%w._-]*$')
    if not beat or not named or #beat > 15 or #weight > 5 then beat = nil end
    if beat and tonumber(beat) > now then -- the clock was set back since
      beat = stamp
      redis.call('HSET', KEYS[1], nodes[i], stamp .. ' ' .. weight .. rest)
    end
    if nodes[i] == ARGV[1] then
      -- it is added below
    elseif not beat or math.max(tonumber(beat), resumed) < now - ttl then
      dead[#dead + 1] = nodes[i]
      changed = true
    else
      table.insert(members, nodes[i])
      table.insert(members, weight)
    end
  end
end
if order == 'remove' then
  changed = #dead > 0 or own
  if own then dead[#dead + 1] = ARGV[1] end
else
  table.insert(members, ARGV[1])
  table.insert(members, ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1],
    table.concat({stamp, ARGV[2], ARGV[4], ARGV[8]}, ' '))
end
for i = 1, #dead, 1000 do
  redis.call('HDEL', KEYS[1], unpack(dead, i, math.min(#dead, i + 999)))
end
if ARGV[5] ~= '' then
  redis.pcall('HSET', KEYS[3], ARGV[1], ARGV[5])
end
if changed then
  epoch = string.format('%.0f', redis.call('INCR', KEYS[2]))
end
local reply = {tonumber(epoch), crawl[1], order}
if epoch ~= ARGV[6] then
  for i = 1, #members do reply[#reply + 1] = members[i] end
end
return reply
