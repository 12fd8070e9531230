-- queue_reserve: take ready URLs; they stay reserved until ack or requeue.
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  queues    sorted set of the queues that have ready URLs
-- KEYS[4]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[5]  polite    hash: queue key to '<token> <time, ms>', see queue_sent
-- KEYS[6...]         the ready lists to take from
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2]  pop       LPOP (oldest first) or RPOP (newest first)
-- ARGV[3...]         for each list: its queue's name, and how many at most
--
-- Returns for each list {left, id, item, id, item, ...}, or nil if the token
-- is not the current one. Or {-wait} for a list whose queue key was last asked
-- under another token and may not be asked again for so many milliseconds: the
-- delay of a host is kept within a node by the node, and between nodes here.

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return nil
end

local reply, taken = {}, 0
local polite = redis.call('EXISTS', KEYS[5]) == 1
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function wait_for(queue)
  local entry = redis.call('HGET', KEYS[5], queue:match(':(.*)$'))
  if not entry then return 0 end
  local token, allowed = entry:match('^(%d+) (%d+)$')
  if not token or token == ARGV[1] then return 0 end
  return math.max(0, tonumber(allowed) - now)
end

local seq = tonumber(redis.call('HGET', KEYS[2], 'seq') or '0')
for i = 6, #KEYS do
  local queue = ARGV[3 + (i - 6) * 2]
  local wait = polite and wait_for(queue) or 0
  local items, left = {}, -wait
  if wait == 0 then
    items = redis.call(ARGV[2], KEYS[i], ARGV[4 + (i - 6) * 2]) or {}
    left = redis.call('LLEN', KEYS[i])
  end
  local part = {left}
  for _, item in ipairs(items) do
    seq = seq + 1
    local id = string.format('%.0f', seq)
    redis.call('HSET', KEYS[4], id, ARGV[1] .. '\n' .. queue .. '\n' .. item)
    part[#part + 1] = id
    part[#part + 1] = item
  end
  if left == 0 then
    redis.call('ZREM', KEYS[3], queue)
  end
  taken = taken + #items
  reply[#reply + 1] = part
end
if taken > 0 then
  redis.call('HSET', KEYS[2], 'seq', string.format('%.0f', seq))
  redis.call('HINCRBY', KEYS[2], 'ready', -taken)
end
return reply
