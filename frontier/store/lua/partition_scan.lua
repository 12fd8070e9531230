-- partition_scan: how much a partition still has to do.
--
-- KEYS[1]  counts    hash {born, ready, pushed, seq, acked, dead, ...}
-- KEYS[2]  reserved  hash of reservations
-- KEYS[3]  seen      hash {count, ...}
--
-- Returns {ready, reserved, pushed, acked, dead, seen, spilled, spilled bytes,
-- shelved bytes, skipped, born}: the last is the mark of the crawl, '' if there is
-- none.

local counts = redis.call('HMGET', KEYS[1], 'ready', 'pushed', 'acked', 'dead',
  'spilled', 'spilled_bytes', 'shelved_bytes', 'skipped', 'born')
return {
  tonumber(counts[1] or '0'), redis.call('HLEN', KEYS[2]), tonumber(counts[2] or '0'),
  tonumber(counts[3] or '0'), tonumber(counts[4] or '0'),
  tonumber(redis.call('HGET', KEYS[3], 'count') or '0'), tonumber(counts[5] or '0'),
  tonumber(counts[6] or '0'), tonumber(counts[7] or '0'), tonumber(counts[8] or '0'),
  counts[9] or '',
}
