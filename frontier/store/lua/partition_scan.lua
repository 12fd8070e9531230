-- partition_scan: how much a partition still has to do.
-- include: numbers
--
-- KEYS[1]  counts    hash {born, ready, pushed, seq, acked, dead, ...}
-- KEYS[2]  reserved  hash of reservations
-- KEYS[3]  seen      hash {count, ...}
-- KEYS[4]  queues    sorted set of the queues that have ready URLs
-- KEYS[5]  due       sorted set of buckets of what waits
-- KEYS[6]  hosts     hash of the records of hosts
-- KEYS[7]  lease     hash {holder, ...}
--
-- Returns {born, holder, ready, reserved, pushed, acked, dead, seen, skipped, queues, waiting,
-- next due}: the mark of the crawl and who holds the lease, '' if there is none, and at the
-- end a time in ms, or 0. Of a partition that never had anything but its mark, as most of a
-- small crawl, only these are returned: {born, holder}.

local NAMES = {'ready', 'pushed', 'acked', 'dead', 'skipped', 'seq', 'waiting'}

local holder = redis.call('HGET', KEYS[7], 'holder') or ''
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) == 0
    and redis.call('HLEN', KEYS[1]) == 1 then
  local born = redis.call('HGET', KEYS[1], 'born')
  if born then return {born, holder} end
end
local counts = redis.call('HMGET', KEYS[1], 'born', unpack(NAMES))
local seen = redis.call('HGET', KEYS[3], 'count') or '0'
local why = no_number(1, NAMES, {unpack(counts, 2)}) or no_number(3, {'count'}, {seen})
if why then return redis.error_reply(why) end
local found = {}
for i, name in ipairs(NAMES) do found[name] = tonumber(counts[i + 1] or '0') end
local due = redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2] or '0'
return {
  counts[1] or '', holder,
  found.ready, redis.call('HLEN', KEYS[2]), found.pushed, found.acked, found.dead,
  tonumber(seen), found.skipped, redis.call('ZCARD', KEYS[4]), found.waiting,
  math.max(0, math.min(tonumber(due), 1e15)),
}
