-- crawl_reopen: let a crawl that is finished be resumed, for what is queued again.
-- include: clock
--
-- KEYS[1]  meta    hash {state, removed_ms, deleting_ms, ...}
-- KEYS[2]  nodes   hash: node id to '<beat, server ms> <weight> <busy> <process>'
-- ARGV[1]  ttl_ms  a node that was silent for longer has left
--
-- Returns 1; 0 if it is not finished, or its frontier is removed; -1 while nodes of it are
-- still leaving. The next node goes on with it.

local state, removed, deleting =
  unpack(redis.call('HMGET', KEYS[1], 'state', 'removed_ms', 'deleting_ms'))
if state ~= 'finished' or removed or deleting then return 0 end
for _, value in ipairs(redis.call('HVALS', KEYS[2])) do
  local beat = tonumber(string.match(value, '^%d+') or '0')
  if beat > now - tonumber(ARGV[1]) then return -1 end
end
redis.call('HSET', KEYS[1], 'state', 'open')
redis.call('HDEL', KEYS[1], 'finished_ms')
return 1
