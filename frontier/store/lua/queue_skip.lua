-- queue_skip: take ready URLs out of a queue whose host has used up its quota.
-- include: fence
--
-- KEYS[1]  lease   hash {token, holder}
-- KEYS[2]  counts  hash {ready, pushed, ..., skipped}
-- KEYS[3]  queues  sorted set of the queues that have ready URLs
-- KEYS[4]  ready   the list
-- KEYS[5]  spent   hash {pages:<queue key>, bytes:<queue key>, skipped:<queue key>}
-- ARGV[1]  token   the token lease_acquire returned
-- ARGV[2]  pop     LPOP (oldest first) or RPOP (newest first)
-- ARGV[3]  queue   its name
-- ARGV[4]  most    how many at most
--
-- Returns {left, skipped}, or nil if the token is not the current one. They are
-- counted as skipped, and stay seen.

local long, most = redis.call('LLEN', KEYS[4]), tonumber(ARGV[4])
local skipped = 0
if most > 0 and long > 0 then
  skipped = #(redis.call(ARGV[2], KEYS[4], most) or {})
end
if long == skipped then
  redis.call('ZREM', KEYS[3], ARGV[3])
end
if skipped > 0 then
  redis.call('HINCRBY', KEYS[2], 'ready', -skipped)
  redis.call('HINCRBY', KEYS[2], 'skipped', skipped)
  redis.call('HINCRBY', KEYS[5], 'skipped:' .. string.match(ARGV[3], ':(.*)$'), skipped)
end
return {long - skipped, skipped}
