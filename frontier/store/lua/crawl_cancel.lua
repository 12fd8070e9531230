-- crawl_cancel: end a crawl whatever is left in it; its nodes are told.
-- include: clock
--
-- KEYS[1]  meta   hash {state, ...}
-- KEYS[2]  nodes  hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- ARGV[1]  ttl_ms a node that was silent for longer is dead
--
-- Returns {done, live}: done is 1 if this call canceled it, 2 if it had been
-- canceled before, 0 if it is not open; live is how many nodes have to leave.

local live = 0
for _, value in ipairs(redis.call('HVALS', KEYS[2])) do
  local beat = tonumber(string.match(value, '^(%d+)') or '0')
  if math.abs(now - beat) <= tonumber(ARGV[1]) then
    live = live + 1
  end
end
local state = redis.call('HGET', KEYS[1], 'state')
if state == 'canceled' then
  return {2, live}
end
if state ~= 'open' then
  return {0, live}
end
redis.call('HSET', KEYS[1], 'state', 'canceled', 'finished_ms', now_text)
return {1, live}
