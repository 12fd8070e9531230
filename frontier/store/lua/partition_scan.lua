-- partition_scan: how much partitions still have to do.
-- include: numbers parts
--
-- KEYS[1...]  of each partition 1 `counts`, the hash {born, ready, pushed, seq, acked,
--             dead, ...}, 2 `reserved`, the hash of reservations, 3 `seen`, the hash
--             {count, ...}, 4 `lease`, the hash {token, holder, why}, and 5 `queues`, the
--             sorted set of the queues that have ready URLs
--
-- Returns for each {ready, reserved, pushed, acked, dead, seen, spilled, spilled bytes,
-- shelved bytes, skipped, queues, born}: the last is the mark of the crawl, '' if
-- there is none. Or {'aside', why} if the partition is set aside.

local NAMES = {'ready', 'pushed', 'acked', 'dead', 'spilled', 'spilled_bytes',
  'shelved_bytes', 'skipped', 'seq', 'blocks'}

local function scan(keys)
  local lease = redis.call('HMGET', keys[4], 'token', 'why')
  if lease[1] == 'aside' then return {'aside', lease[2] or ''} end
  local counts = redis.call('HMGET', keys[1], 'born', unpack(NAMES))
  local seen = redis.call('HGET', keys[3], 'count') or '0'
  local why = no_number(1, NAMES, {unpack(counts, 2)}) or no_number(3, {'count'}, {seen})
  if why then return redis.error_reply(why) end
  local found = {}
  for i, name in ipairs(NAMES) do found[name] = tonumber(counts[i + 1] or '0') end
  return {
    found.ready, redis.call('HLEN', keys[2]), found.pushed, found.acked, found.dead,
    tonumber(seen), found.spilled, found.spilled_bytes, found.shelved_bytes,
    found.skipped, redis.call('ZCARD', keys[5]), counts[1] or '',
  }
end

return each_part(5, 0, 0, scan)
