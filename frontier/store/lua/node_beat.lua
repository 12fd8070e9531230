-- node_beat: say that a node lives, and learn who else does.
-- include: clock epoch_order sweeps membership membership_log earlier_report former
--
-- KEYS[1]  nodes    hash: node id to '<beat, server ms> <weight> <busy> <process> <number> <ttl>'
-- KEYS[2]  epoch    integer
-- KEYS[3]  reports  hash: node id to JSON
-- KEYS[4]  meta     hash {state, born, swept_ms, resumed_ms, controls, twice, ...}
-- KEYS[5]  order    string: what an operator wants of this node
-- KEYS[6]  log      list of what has happened to the members
-- KEYS[7]  former   hash: '<node id>/<process>/<number>' to '<beat, server ms>'
-- ARGV[1]  node     node id
-- ARGV[2]  weight   its weight in the ring; 0 while it leaves
-- ARGV[3]  ttl_ms   for how long it may be silent before it is dead
-- ARGV[4]  busy     1 while the node has work that is not in the store, else 0
-- ARGV[5]  report   JSON; '' leaves the last one
-- ARGV[6]  known    the epoch that it knows; less than 0 with the first beat of a process
-- ARGV[7]  born     of the crawl that it is in; '' if it has none
-- ARGV[8]  process  what tells its process from others with its id
-- ARGV[9]  number   of its name
-- ARGV[10]  adds    1 if this name is to come onto the map, else 0
--
-- Returns {epoch, state, order, controls, had, now, node, weight, name, ...}, the last three
-- as read_others has them, and not if the epoch is known; *had* is the time of the beat that
-- the map had of this name. Or {-1}, and does nothing, if that crawl is not there any more;
-- {-2} if another process beats under its id by now, which is noted; {-3} if the name is not
-- on the map, and is not to come there. The epoch grows with each change of what is there.

redis.call('HDEL', KEYS[1], '') -- a script that begins so may write to a full server
local ttl, begins = tonumber(ARGV[3]), tonumber(ARGV[6]) < 0
local crawl = redis.call('HMGET', KEYS[4], 'state', 'born', 'swept_ms', 'resumed_ms', 'controls')
if not crawl[1] or (crawl[2] or '') ~= ARGV[7] then return {-1} end
local had, own, process, number = read_own(redis.call('HGET', KEYS[1], ARGV[1]))
local is_same, epoch = process == ARGV[8], read_epoch()
if not begins and process and not is_same then return note_twice(KEYS[4], KEYS[6], epoch) end
local order, is_named = read_order(begins), is_same and number == ARGV[9]
local may_add = ARGV[10] == '1' and not (is_same and (tonumber(number) or 0) > tonumber(ARGV[9]))
if order ~= 'remove' and not is_named and not may_add then return {-3} end
local sweeps, resumed = sweep(crawl[3], crawl[4], ttl, begins)
local changed, live, gone = not is_named or own ~= ARGV[2], {}, {}
local what = not own and 'joined' or not is_same and 'replaced' or own ~= ARGV[2] and 'weight'
if process and not is_same then keep_former(process .. '/' .. number, had) end
if sweeps or changed or order == 'remove' or epoch ~= ARGV[6] then
  live, gone = read_others(KEYS[6], epoch, ttl, resumed)
end
if order == 'remove' then
  changed, what = own, own and 'removed'
  drop({ARGV[1]})
else
  local beat = {now_text, ARGV[2], ARGV[4], ARGV[8], ARGV[9], ARGV[3]}
  redis.call('HSET', KEYS[1], ARGV[1], table.concat(beat, ' '))
  add(live, ARGV[1], ARGV[2], table.concat({ARGV[1], ARGV[8], ARGV[9]}, '/'))
end
if begins and not is_same then keep_earlier(KEYS[3], ARGV[1]) end
if ARGV[5] ~= '' then redis.pcall('HSET', KEYS[3], ARGV[1], ARGV[5]) end
if changed or #gone > 0 then epoch = next_epoch() end
if what then note(KEYS[6], epoch, what, ARGV[2], {ARGV[1]}) end
local reply = {tonumber(epoch), crawl[1], order, crawl[5] or '', is_named and had or '0', now_text}
for i = 1, epoch ~= ARGV[6] and #live or 0 do reply[#reply + 1] = live[i] end
return reply
