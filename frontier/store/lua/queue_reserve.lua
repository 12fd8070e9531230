-- queue_reserve: take ready URLs; they stay reserved until ack or requeue.
-- include: fence clock numbers next_allowed block_mark
--
-- KEYS[1]  lease         hash {token, holder}
-- KEYS[2]  counts        hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  queues        sorted set of the queues that have ready URLs
-- KEYS[4]  reserved      hash: id to '<token>\n<queue>\n<item>'
-- KEYS[5]  next_allowed  hash: queue key to '<token> <time, ms> <delay, ms>', see queue_sent
-- KEYS[6...]             the ready lists to take from
-- ARGV[1]  token         the token lease_acquire returned
-- ARGV[2]  pop           LPOP (oldest first) or RPOP (newest first)
-- ARGV[3...]             for each list: its queue's name, and how many at most
--
-- Returns for each list {left, id, item, id, item, ...}, or nil if the token is not the
-- current one. Or {-wait} for a list whose queue key was last asked under another token
-- and may not be asked again for so many milliseconds (see next_allowed). Fewer than
-- wanted, though some are left: the next are in a block (queue_spill).

-- While a slot is being moved, a key that has vanished counts as being at the other
-- server: none is touched again after what may have emptied it.
local reply, taken, emptied = {}, 0, {}
-- What fails, fails before anything is taken: a reservation needs all of these.
local names = {'seq', 'blocks', 'ready'}
local counts = redis.call('HMGET', KEYS[2], 'seq', 'blocks', 'ready')
local why = no_number(2, names, counts)
if why then return redis.error_reply(why) end
redis.call('HLEN', KEYS[4])
local seq, has_blocks = tonumber(counts[1] or '0'), tonumber(counts[2] or '0') > 0
for i = 6, #KEYS do
  local queue = ARGV[3 + (i - 6) * 2]
  local wait = wait_for(queue)
  local items, left = {}, -wait
  if wait == 0 then
    left = redis.call('LLEN', KEYS[i])
    if left > 0 then
      local most = tonumber(ARGV[4 + (i - 6) * 2])
      if has_blocks then most = before_mark(KEYS[i], ARGV[2], most, left) end
      if most > 0 then items = redis.call(ARGV[2], KEYS[i], most) or {} end
      left = left - #items
    end
  end
  local part = {left}
  for _, item in ipairs(items) do
    local id
    repeat -- an id that is there already: seq is not what it was
      seq = seq + 1
      id = string.format('%.0f', seq)
    until redis.call('HSETNX', KEYS[4], id, ARGV[1] .. '\n' .. queue .. '\n' .. item) == 1
    part[#part + 1], part[#part + 2] = id, item
  end
  if left == 0 then emptied[#emptied + 1] = queue end
  taken = taken + #items
  reply[#reply + 1] = part
end
if #emptied > 0 then redis.call('ZREM', KEYS[3], unpack(emptied)) end
if taken > 0 then
  redis.call('HSET', KEYS[2], 'seq', string.format('%.0f', seq))
  redis.call('HINCRBY', KEYS[2], 'ready', -taken)
end
return reply
