-- node_leave: take a node off the membership map; not yet if nobody would be there to end it.
-- include: clock epoch_order sweeps membership membership_log
--
-- KEYS[1]  nodes    hash: node id to '<beat, server ms> <weight> <busy> <process> <number> <ttl>'
-- KEYS[2]  epoch    integer
-- KEYS[3]  reports  hash: node id to JSON
-- KEYS[4]  meta     hash {state, born, finished_ms, swept_ms, resumed_ms, ...} of the crawl
-- KEYS[5]  order    string: what an operator wants of the leaving node
-- KEYS[6]  log      list of what has happened to the members
-- KEYS[7]  hints    list of the leaving node
-- ARGV[1]  node     node id
-- ARGV[2]  report   JSON of its last report
-- ARGV[3]  born     of the crawl that the node was in; '' if it has none
-- ARGV[4]  process  what tells its process from others with its id
-- ARGV[5]  ttl_ms   a node that was silent for longer is dead
--
-- Returns {left, state, node, ...}: how many nodes are left, and the crawl's state. Or {-1}
-- and does nothing, if that crawl is not there any more. Where another process beats under
-- its id, only that is counted. Of a crawl that has ended the dead are taken off first. If
-- all others have been silent since it ended, they are named, and the node stays, as one
-- that lives: whoever beats after the end knows of it, and leaves later.

local crawl = redis.call('HMGET', KEYS[4], 'state', 'born', 'finished_ms', 'swept_ms', 'resumed_ms')
if not crawl[1] or (crawl[2] or '') ~= ARGV[3] then return {-1} end
local value = redis.call('HGET', KEYS[1], ARGV[1])
local rest, process = string.match(value or '', '^%d+( %d+ %d (%w+).*)')
local silent = {}
if crawl[1] == 'finished' or crawl[1] == 'canceled' or crawl[1] == 'limit' then
  local _, resumed = sweep(crawl[4], crawl[5], tonumber(ARGV[5]), false)
  local live, dead = read_map(tonumber(ARGV[5]), resumed)
  drop(dead)
  if #dead > 0 then note(KEYS[6], next_epoch(), 'died', '0', dead) end
  silent = unheard(live, tonumber(crawl[3] or ''))
end
local left = redis.call('HLEN', KEYS[1]) -- before it may vanish, as slots move
if process and process ~= ARGV[4] then return {left, crawl[1]} end
if #silent > 0 then
  if rest then redis.call('HSET', KEYS[1], ARGV[1], now_text .. rest) end
  return {left, crawl[1], unpack(silent, 1, math.min(#silent, 10))}
end
if value then
  left = left - 1
  redis.call('HDEL', KEYS[1], ARGV[1])
  note(KEYS[6], next_epoch(), 'left', '0', {ARGV[1]})
end
redis.pcall('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('DEL', KEYS[7], KEYS[5])
return {left, crawl[1]}
