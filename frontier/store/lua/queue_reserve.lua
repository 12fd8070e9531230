-- queue_reserve: take ready URLs; they stay reserved until ack or requeue.
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  queues    sorted set of the queues that have ready URLs
-- KEYS[4]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[5]  next_allowed  hash: queue key to '<token> <time, ms> <delay, ms>', see queue_sent
-- KEYS[6...]         the ready lists to take from
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2]  pop       LPOP (oldest first) or RPOP (newest first)
-- ARGV[3...]         for each list: its queue's name, and how many at most
--
-- Returns for each list {left, id, item, id, item, ...}, or nil if the token
-- is not the current one. Or {-wait} for a list whose queue key was last asked
-- under another token and may not be asked again for so many milliseconds: the
-- delay of a host is kept within a node by the node, and between nodes here.
-- Fewer than wanted, though some are left: the next are in a block (queue_spill).

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return nil
end

-- While a slot is being moved, a key that has vanished counts as being at the other
-- server: none is touched again after what may have emptied it.
local reply, taken, emptied = {}, 0, {}
local polite = redis.call('TYPE', KEYS[5]).ok == 'hash' -- else nothing is known
local LONGEST = 3600000 -- ms; no delay of a host is longer
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function wait_for(queue)
  local entry = redis.call('HGET', KEYS[5], queue:match(':(.*)$'))
  if not entry then return 0 end
  local token, allowed, delay = entry:match('^(%d+) (%d+) ?(%d*)$')
  if not token or token == ARGV[1] then return 0 end
  -- no longer than its delay, though the clock was set back since
  return math.max(0, math.min(tonumber(allowed) - now, tonumber(delay) or LONGEST, LONGEST))
end

-- How many may be taken of a list, so many long, before its mark is reached.
local function before_mark(list, most, long)
  local oldest = ARGV[2] == 'LPOP'
  local mark = redis.call('LPOS', list, '*', 'RANK', oldest and 1 or -1, 'MAXLEN', most)
  if not mark then return most end
  return oldest and mark or long - mark - 1
end

-- What fails, fails before anything is taken: a reservation needs all of these.
local names = {'seq', 'blocks', 'ready'}
local counts = redis.call('HMGET', KEYS[2], 'seq', 'blocks', 'ready')
for i = 1, 3 do
  local value = counts[i]
  if value and (not string.find(value, '^%d+$') or #value > 15) then
    return redis.error_reply('BADKEY 2 its ' .. names[i] .. ' is not a number')
  end
end
redis.call('HLEN', KEYS[4])
local seq, has_blocks = tonumber(counts[1] or '0'), tonumber(counts[2] or '0') > 0
for i = 6, #KEYS do
  local queue = ARGV[3 + (i - 6) * 2]
  local wait = polite and wait_for(queue) or 0
  local items, left = {}, -wait
  if wait == 0 then
    left = redis.call('LLEN', KEYS[i])
    if left > 0 then
      local most = tonumber(ARGV[4 + (i - 6) * 2])
      if has_blocks then most = before_mark(KEYS[i], most, left) end
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
      local entry = ARGV[1] .. '\n' .. queue .. '\n' .. item
    until redis.call('HSETNX', KEYS[4], id, entry) == 1
    part[#part + 1] = id
    part[#part + 1] = item
  end
  if left == 0 then
    emptied[#emptied + 1] = queue
  end
  taken = taken + #items
  reply[#reply + 1] = part
end
if #emptied > 0 then
  redis.call('ZREM', KEYS[3], unpack(emptied))
end
if taken > 0 then
  redis.call('HSET', KEYS[2], 'seq', string.format('%.0f', seq))
  redis.call('HINCRBY', KEYS[2], 'ready', -taken)
end
return reply
