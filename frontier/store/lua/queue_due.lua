-- queue_due: make ready what waited, and is due.
-- include: fence clock numbers waiting_heads
--
-- KEYS[1]  lease    hash {token, holder}
-- KEYS[2]  counts   hash {ready, waiting, pushed, seq, acked, dead}
-- KEYS[3]  queues   sorted set of the queues that have ready URLs
-- KEYS[4]  due      sorted set of buckets, scored by when they are due, ms
-- KEYS[5]  waiting  list of the bucket: '<queue>\n<item>'
-- KEYS[6...]        the ready lists to move to
-- ARGV[1]  token    the token lease_acquire returned
-- ARGV[2]  bucket   that the caller takes for the next; '' if it knows of none
-- ARGV[3]  most     URLs that are looked at
-- ARGV[4...]        for each ready list: its queue's name, and its priority
--
-- Returns {now, moved, bucket, at, became, lacking}, or nil if the token is not the
-- current one: how many were moved, the bucket that is due next and when ('' and 0: none),
-- the names of the queues that were empty before, and of those to which the next belong
-- that the caller has not named: the call is to be made again with them.

local moved, lists, became, lacking = 0, {}, {}, {}
local first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
if first[1] and first[1] == ARGV[2] and tonumber(first[2]) <= now then
  local why = no_number(2, {'ready', 'waiting'}, redis.call('HMGET', KEYS[2], 'ready', 'waiting'))
  if why then return redis.error_reply(why) end
  local known = {}
  for i = 6, #KEYS do
    known[ARGV[2 * i - 8]] = i
    redis.call('LLEN', KEYS[i]) -- what fails, fails before anything is moved
  end
  local long = redis.call('ZCARD', KEYS[3]) and redis.call('LLEN', KEYS[5])
  moved, lists, lacking = heads(KEYS[5], tonumber(ARGV[3]), known)
  for i, items in pairs(lists) do
    local name = ARGV[2 * i - 8]
    if redis.call('RPUSH', KEYS[i], unpack(items)) == #items then became[#became + 1] = name end
    redis.call('ZADD', KEYS[3], -tonumber(ARGV[2 * i - 7]), name)
  end
  if moved > 0 then
    redis.call('LTRIM', KEYS[5], moved, -1)
    redis.call('HINCRBY', KEYS[2], 'ready', moved)
    redis.call('HINCRBY', KEYS[2], 'waiting', -moved)
  end
  if moved == long then
    redis.call('ZREM', KEYS[4], ARGV[2])
    first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  end
end
return {now, moved, first[1] or '', first[2] or '0', became, lacking}
