-- next_allowed: when a host may be asked again that another lease asked last.
--
-- KEYS[5]  next_allowed  hash: queue key to '<token> <time, ms> <delay, ms>', see queue_sent
-- ARGV[1]  token         of the caller's lease
--
-- wait_for(queue) is for how many milliseconds its queue key may not be asked; 0 under
-- the lease that asked it: within a node the node keeps the delay. Needs `clock`.

local LONGEST = 3600000 -- ms; no delay of a host is longer

local function wait_for(queue)
  local entry = redis.call('HGET', KEYS[5], queue:match(':(.*)$'))
  if not entry then return 0 end
  local token, allowed, delay = entry:match('^(%d+) (%d+) ?(%d*)$')
  if not token or token == ARGV[1] then return 0 end
  -- no longer than its delay, though the clock was set back since
  return math.max(0, math.min(tonumber(allowed) - now, tonumber(delay) or LONGEST, LONGEST))
end
