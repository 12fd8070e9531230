-- queue_reserve: take ready URLs; they stay reserved until ack or requeue.
-- include: fence numbers reservations
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  queues    sorted set of the queues that have ready URLs
-- KEYS[4]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[5...]         the ready lists to take from
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2]  pop       LPOP (oldest first) or RPOP (newest first)
-- ARGV[3...]         for each list its queue's name, and how many at most
--
-- Returns for each list {left, id, item, item, ...}: the id of the first item, and each of
-- the others has the next; or nil if the token is not the current one.

-- While a slot moves, none is touched again after what may have emptied it: it would count
-- as being at the other server. What fails, fails before anything is taken.
local reply, values, emptied, names = {}, {}, {}, {'seq', 'ready'}
local counts = redis.call('HMGET', KEYS[2], unpack(names))
local why = no_number(2, names, counts)
if why then return redis.error_reply(why) end
redis.call('HLEN', KEYS[4])
local seq = tonumber(counts[1] or '0')
for i = 5, #KEYS do
  local at = 3 + (i - 5) * 2
  local queue, left, part = ARGV[at], redis.call('LLEN', KEYS[i]), {}
  local most = left > 0 and tonumber(ARGV[at + 1]) or 0
  if most > 0 then
    local head = ARGV[1] .. '\n' .. queue .. '\n'
    part[2] = #values -- the id is this much more
    for n, item in ipairs(redis.call(ARGV[2], KEYS[i], most) or {}) do
      part[n + 2], values[#values + 1] = item, head .. item
    end
    left = left - (#values - part[2])
  end
  part[1] = left
  if left == 0 then emptied[#emptied + 1] = queue end
  reply[#reply + 1] = part
end
if #values > 0 then
  seq = reserve(seq, values) + 1
  for _, part in ipairs(reply) do part[2] = part[2] and seq + part[2] end
  redis.call('HSET', KEYS[2], 'seq', string.format('%.0f', seq + #values - 1),
    'ready', string.format('%.0f', tonumber(counts[2] or '0') - #values))
end
-- Last: if it fails, what was taken is reserved, and not lost.
if #emptied > 0 then redis.call('ZREM', KEYS[3], unpack(emptied)) end
return reply
