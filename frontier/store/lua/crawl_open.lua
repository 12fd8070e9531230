-- crawl_open: create a crawl, or learn what it was created with.
--
-- KEYS[1]  meta   hash {state, created_ms, ...}
-- ARGV[1]  shape  JSON of the settings that all nodes must share
-- ARGV[2]  spider name of the spider
--
-- Returns {state, shape} as they are now: the caller compares.

if redis.call('EXISTS', KEYS[1]) == 0 then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  redis.call('HSET', KEYS[1], 'state', 'open', 'shape', ARGV[1], 'spider', ARGV[2],
    'created_ms', string.format('%.0f', now))
end
return redis.call('HMGET', KEYS[1], 'state', 'shape')
