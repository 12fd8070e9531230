-- membership: the live nodes and the dead, as the membership map has them.
--
-- KEYS[1]  nodes  hash: node id to '<beat, server ms> <weight> <busy> <process> <number> <ttl>'
-- ARGV[1]  node   node id of the caller, which is in neither
--
-- read_map(ttl, resumed) returns {node, weight, name, node, weight, name, ...}, the ids of
-- those that were silent for longer than their own ttl, or this one if they have none,
-- since resumed at least, in ms, and the names of these. So is_silent(beat, ttl, resumed),
-- also of a beat that is ahead by as much, as the clock was set back since. An entry that
-- cannot be is that of a dead node. Needs `clock`. add(live, node, weight, name) adds
-- one to these. drop(dead) takes ids off the map. unheard(live, since) returns the
-- ids in *live* if none of them has sent a heartbeat after *since*, else nothing.

local function add(live, ...)
  for _, value in ipairs({...}) do live[#live + 1] = value end
end

local function is_silent(beat, ttl, resumed)
  return math.abs(now - beat) > ttl and resumed < now - ttl
end

local function read_map(ttl, resumed)
  local live, dead, gone = {}, {}, {}
  local nodes = redis.call('HGETALL', KEYS[1])
  for i = 1, #nodes, 2 do
    local beat, weight, process, number, own = string.match(nodes[i + 1],
      '^(%d+) (%d+) ?%d? ?(%w*) ?(%d*) ?(%d*)')
    local named = #nodes[i] <= 100 and string.find(nodes[i], '^%w[%w._-]*$')
    if not beat or not named or #beat > 15 or #weight > 5 then beat = nil end
    local name = table.concat({nodes[i], process or '', number or ''}, '/')
    if nodes[i] == ARGV[1] then
      -- the caller sees to its own
    elseif not beat or is_silent(beat, tonumber(own) or ttl, resumed) then
      dead[#dead + 1], gone[#gone + 1] = nodes[i], name
    else
      add(live, nodes[i], weight, name)
    end
  end
  return live, dead, gone
end

local function drop(dead)
  for i = 1, #dead, 1000 do
    redis.call('HDEL', KEYS[1], unpack(dead, i, math.min(#dead, i + 999)))
  end
end

local function unheard(live, since)
  local silent = {}
  for i = 1, #live, 3 do
    local beat = tonumber(string.match(redis.call('HGET', KEYS[1], live[i]) or '', '^%d+') or '0')
    if since and beat > since then return {} end
    silent[#silent + 1] = live[i]
  end
  return silent
end
