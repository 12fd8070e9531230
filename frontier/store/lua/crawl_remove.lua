-- crawl_remove: say that the frontier of a crawl that has ended is being removed.
-- include: clock
--
-- KEYS[1]  meta  hash {state, ...}
--
-- Returns 1, or 0 if the crawl has not ended. It is said before anything is
-- removed: nobody takes what is left of a seen-set for all of it.

local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'finished' and state ~= 'canceled' and state ~= 'limit' then
  return 0
end
redis.call('HSETNX', KEYS[1], 'removed_ms', now_text)
return 1
