-- partition_scan: how much a partition still has to do.
-- include: numbers
--
-- KEYS[1]  counts    hash {born, ready, pushed, seq, acked, dead, ...}
-- KEYS[2]  reserved  hash of reservations
-- KEYS[3]  seen      hash {count, ...}
-- KEYS[4]  lease     hash {token, holder, why}
-- KEYS[5]  queues    sorted set of the queues that have ready URLs
--
-- Returns {ready, reserved, pushed, acked, dead, seen, spilled, spilled bytes,
-- shelved bytes, skipped, queues, born}: the last is the mark of the crawl, '' if
-- there is none. Or {'aside', why} if the partition is set aside.

local lease = redis.call('HMGET', KEYS[4], 'token', 'why')
if lease[1] == 'aside' then
  return {'aside', lease[2] or ''}
end
local names = {'ready', 'pushed', 'acked', 'dead', 'spilled', 'spilled_bytes',
  'shelved_bytes', 'skipped', 'seq', 'blocks'}
local counts = redis.call('HMGET', KEYS[1], 'born', unpack(names))
local seen = redis.call('HGET', KEYS[3], 'count') or '0'
local why = no_number(1, names, {unpack(counts, 2)}) or no_number(3, {'count'}, {seen})
if why then return redis.error_reply(why) end
local found = {}
for i, name in ipairs(names) do found[name] = tonumber(counts[i + 1] or '0') end
return {
  found.ready, redis.call('HLEN', KEYS[2]), found.pushed, found.acked, found.dead,
  tonumber(seen), found.spilled, found.spilled_bytes, found.shelved_bytes,
  found.skipped, redis.call('ZCARD', KEYS[5]), counts[1] or '',
}
