-- partition_scan: how much a partition still has to do.
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
local found = {}
for i, name in ipairs(names) do
  local value = counts[i + 1] or '0'
  if not string.find(value, '^%d+$') or #value > 15 then
    return redis.error_reply('BADKEY 1 its ' .. name .. ' is not a number')
  end
  found[name] = tonumber(value)
end
local seen = redis.call('HGET', KEYS[3], 'count') or '0'
if not string.find(seen, '^%d+$') or #seen > 15 then
  return redis.error_reply('BADKEY 3 its count is not a number')
end
return {
  found.ready, redis.call('HLEN', KEYS[2]), found.pushed, found.acked, found.dead,
  tonumber(seen), found.spilled, found.spilled_bytes, found.shelved_bytes,
  found.skipped, redis.call('ZCARD', KEYS[5]), counts[1] or '',
}
