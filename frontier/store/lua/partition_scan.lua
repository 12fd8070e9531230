-- partition_scan: how much partitions still have to do.
-- include: numbers parts
--
-- KEYS[1...]  of each partition 1 `counts`, the hash {born, ready, pushed, seq, acked,
--             dead, ...}, 2 `reserved`, the hash of reservations, 3 `seen`, the hash
--             {count, ...}, 4 `queues`, the sorted set of the queues that have ready
--             URLs, and 5 `due`, the sorted set of buckets of what waits
--
-- Returns for each {ready, reserved, pushed, acked, dead, seen, skipped, queues,
-- waiting, next due, born}: that is a time in ms, or 0, and the last the mark of the
-- crawl, '' if there is none. One that was never pushed to, as most of a small crawl, has
-- only its mark: few questions find that.

local NAMES = {'ready', 'pushed', 'acked', 'dead', 'skipped', 'seq', 'waiting'}

local function scan(keys)
  if redis.call('EXISTS', keys[2], keys[3], keys[4], keys[5]) == 0
      and redis.call('HLEN', keys[1]) == 1 then
    local born = redis.call('HGET', keys[1], 'born')
    if born then return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, born} end
  end
  local counts = redis.call('HMGET', keys[1], 'born', unpack(NAMES))
  local seen = redis.call('HGET', keys[3], 'count') or '0'
  local why = no_number(1, NAMES, {unpack(counts, 2)}) or no_number(3, {'count'}, {seen})
  if why then return redis.error_reply(why) end
  local found = {}
  for i, name in ipairs(NAMES) do found[name] = tonumber(counts[i + 1] or '0') end
  local due = redis.call('ZRANGE', keys[5], 0, 0, 'WITHSCORES')[2] or '0'
  return {
    found.ready, redis.call('HLEN', keys[2]), found.pushed, found.acked, found.dead,
    tonumber(seen), found.skipped, redis.call('ZCARD', keys[4]), found.waiting,
    math.max(0, math.min(tonumber(due), 1e15)), counts[1] or '',
  }
end

return each_part(5, 0, 0, scan)
