-- waiting_lists: put URLs into the list of a bucket, where they wait until it is due.
--
-- wait_for_due(waiting, due, bucket, delay, elements) appends them to the list, a key, of
-- the bucket, a time in ms, and returns whether it is new and the next that is due in the
-- sorted set due. It is due at that time, and not before delay ms from now have passed,
-- whatever the clock that named it.

local server_ms -- asked for when something waits, and once

local function wait_for_due(waiting, due, bucket, delay, elements)
  for first = 1, #elements, 1000 do -- as many as Lua's stack takes
    redis.call('RPUSH', waiting, unpack(elements, first, math.min(first + 999, #elements)))
  end
  if not server_ms then
    local time = redis.call('TIME')
    server_ms = tonumber(time[1]) * 1000 + math.ceil(tonumber(time[2]) / 1000)
  end
  local at = math.max(tonumber(bucket), server_ms + tonumber(delay))
  local known = redis.call('ZSCORE', due, bucket)
  if not known or tonumber(known) < at then
    redis.call('ZADD', due, string.format('%.0f', at), bucket)
  end
  return not known and redis.call('ZRANGE', due, 0, 0)[1] == bucket
end
