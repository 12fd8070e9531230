-- node_beat: say that a node lives, and learn who else does.
-- include: clock epoch_order sweeps membership membership_log earlier_report
--
-- KEYS[1]  nodes    hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- KEYS[2]  epoch    integer
-- KEYS[3]  reports  hash: node id to JSON
-- KEYS[4]  meta     hash {state, born, swept_ms, resumed_ms, controls, twice, ...}
-- KEYS[5]  order    string: what an operator wants of this node
-- KEYS[6]  log      list of what has happened to the members
-- ARGV[1]  node     node id
-- ARGV[2]  weight   its weight in the ring; 0 while it leaves
-- ARGV[3]  ttl_ms   a node that was silent for longer is dead
-- ARGV[4]  busy     1 while the node has work that is not in the store, else 0
-- ARGV[5]  report   JSON; '' leaves the last one
-- ARGV[6]  known    the epoch that it knows; less than 0 with the first beat of a process
-- ARGV[7]  born     of the crawl that it is in; '' if it has none
-- ARGV[8]  process  what tells its process from others with its id
--
-- Returns {epoch, state, order, controls, node, weight, node, weight, ...}; without the
-- nodes if the epoch is the one that is known. Or {-1}, and does nothing, if that crawl is
-- not there any more; {-2} if another process beats under its id by now, which is noted.
-- The epoch grows with each change of the live nodes or a weight. Controls are the version
-- of crawl_control. Who does not know the epoch reads the whole map, and so does a beat a second.

redis.call('HDEL', KEYS[1], '') -- a script that begins so may write to a full server
local ttl, begins = tonumber(ARGV[3]), tonumber(ARGV[6]) < 0
local crawl = redis.call('HMGET', KEYS[4], 'state', 'born', 'swept_ms', 'resumed_ms', 'controls')
if not crawl[1] or (crawl[2] or '') ~= ARGV[7] then return {-1} end
local own, process = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '',
  '^%d+ (%d+) %d ?(%w*)')
local epoch = read_epoch()
if not begins and process and process ~= ARGV[8] then
  redis.call('HSET', KEYS[4], 'twice', now_text .. ' ' .. ARGV[1])
  note(KEYS[6], epoch, 'twice', '0', {ARGV[1]})
  return {-2}
end
local order = read_order(begins)
local sweeps, resumed = sweep(crawl[3], crawl[4], ttl, begins)
local changed, live, dead = own ~= ARGV[2], {}, {}
local what = not own and 'joined' or process ~= ARGV[8] and 'replaced' or changed and 'weight'
if sweeps or changed or order == 'remove' or epoch ~= ARGV[6] then
  live, dead = read_map(ttl, resumed)
  changed = changed or #dead > 0
end
if order == 'remove' then
  changed, what = #dead > 0 or own, own and 'removed'
  if own then drop({ARGV[1]}) end
else
  live[#live + 1], live[#live + 2] = ARGV[1], ARGV[2]
  redis.call('HSET', KEYS[1], ARGV[1], table.concat({now_text, ARGV[2], ARGV[4], ARGV[8]}, ' '))
end
drop(dead)
if begins and process ~= ARGV[8] then keep_earlier(KEYS[3], ARGV[1]) end
if ARGV[5] ~= '' then redis.pcall('HSET', KEYS[3], ARGV[1], ARGV[5]) end
if changed then epoch = string.format('%.0f', redis.call('INCR', KEYS[2])) end
note(KEYS[6], epoch, 'died', '0', dead)
if what then note(KEYS[6], epoch, what, ARGV[2], {ARGV[1]}) end
local reply = {tonumber(epoch), crawl[1], order, crawl[5] or ''}
for i = 1, epoch ~= ARGV[6] and #live or 0 do reply[#reply + 1] = live[i] end
return reply
