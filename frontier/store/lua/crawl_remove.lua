-- crawl_remove: say that a crawl that has ended, and that no node runs, is being removed.
-- include: clock
--
-- KEYS[1]  meta   hash {state, removed_ms, deleting_ms, ...}
-- KEYS[2]  nodes  hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- ARGV[1]  ttl_ms a node that was silent for longer is dead
-- ARGV[2]  field  removed_ms, deleting_ms, or '': then nothing is changed
--
-- Returns {1}; {0} if it has not ended, {-1, node, ...} with the nodes that are alive,
-- or {2} if there is no such crawl. It is said before anything is removed: nobody joins
-- what is being deleted, or takes what is left of a seen-set for all of it.

local state = redis.call('HGET', KEYS[1], 'state')
if not state then
  return {2}
end
if state ~= 'finished' and state ~= 'canceled' and state ~= 'limit' then
  return {0}
end
local found = {-1}
local members = redis.pcall('HGETALL', KEYS[2]) -- of another type it has no nodes
for i = 1, #members, 2 do
  local beat = tonumber(string.match(members[i + 1], '^(%d+)') or '0')
  if math.abs(now - beat) <= tonumber(ARGV[1]) then
    found[#found + 1] = members[i]
  end
end
if #found > 1 then
  return found
end
if ARGV[2] ~= '' then
  redis.call('HSETNX', KEYS[1], ARGV[2], now_text)
end
return {1}
