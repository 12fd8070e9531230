-- crawl_close: end a crawl that no node runs, whatever is left in it.
-- include: clock
--
-- KEYS[1]  meta   hash {state, seeding_ms, ...}
-- KEYS[2]  nodes  hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- ARGV[1]  ttl_ms a node that was silent for longer is dead
--
-- Returns 1 if this call ended it, 2 if it had ended before, 0 if a node lives
-- or seeds are put in.

local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'open' then
  return 2
end
local seeding = tonumber(redis.call('HGET', KEYS[1], 'seeding_ms') or '') or 0
if seeding > now then
  return 0
end
for _, value in ipairs(redis.call('HVALS', KEYS[2])) do
  local beat = tonumber(string.match(value, '^(%d+)') or '0')
  if math.abs(now - beat) <= tonumber(ARGV[1]) then
    return 0
  end
end
redis.call('HSET', KEYS[1], 'state', 'finished', 'finished_ms', now_text)
return 1
