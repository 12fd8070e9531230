-- crawl_finish: end a crawl that has nothing left to do.
--
-- KEYS[1]  meta   hash {state, seeding_ms, ...}
-- KEYS[2]  nodes  hash: node id to '<beat, server ms> <weight> <busy>'
-- ARGV[1]  ttl_ms a node that was silent for longer is dead
--
-- Returns 1 if this call ended it, 2 if it had ended before, 3 if it was
-- canceled or at a limit, 0 if a live node is busy: it loads seeds or holds requests that are
-- not in the store, or while a command puts seeds in.

local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'open' then
  return (state == 'canceled' or state == 'limit') and 3 or 2
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
for _, value in ipairs(redis.call('HVALS', KEYS[2])) do
  local beat, busy = string.match(value, '^(%d+) %d+ (%d)')
  if busy == '1' and tonumber(beat) >= now - tonumber(ARGV[1]) then
    return 0
  end
end
if tonumber(redis.call('HGET', KEYS[1], 'seeding_ms') or '0') > now then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'finished', 'finished_ms', string.format('%.0f', now))
return 1
