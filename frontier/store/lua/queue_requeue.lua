-- queue_requeue: put reserved URLs back to the front of their queues, or give them up.
-- include: fence
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  queues    sorted set of the queues that have ready URLs
-- KEYS[4]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[5]  started   set of the ids of what was started
-- KEYS[6]  dead      list of '<reason>\n<queue>\n<item>'
-- KEYS[7...]         the ready lists to put back to
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2]  push      LPUSH where the oldest comes first, else RPUSH
-- ARGV[3]  tries     deliveries after which an item is dead; 0: this was none;
--                    less than 0: the third of one; '' if all are given up
-- ARGV[4]  why       added to the reason of those that are dead; or the whole reason
-- ARGV[5...]         for each item, the one to be handed out last first: its id, the index
--                    in KEYS of its list, its queue's name and its priority
--
-- Returns {requeued, dead}, or nil if the token is not the current one.
-- An item begins with a digit: its deliveries without an ack, and three for each third of one.

redis.call('ZCARD', KEYS[3]) -- what fails, fails before anything is put back
redis.call('SCARD', KEYS[5])
for i = 6, #KEYS do redis.call('LLEN', KEYS[i]) end
local tries = tonumber(ARGV[3]) or 0
local requeued, dead, ended = 0, 0, {}

local function counted(digit) -- the deliveries and the thirds, this one included
  local whole, thirds = digit % 3 + (tries > 0 and 1 or 0), math.floor(digit / 3)
  if tries < 0 then thirds = thirds + 1 end
  if thirds == 3 then whole, thirds = whole + 1, 0 end
  return whole, thirds
end

for i = 5, #ARGV, 4 do
  local value = redis.call('HGET', KEYS[4], ARGV[i])
  if value then
    local item = string.match(value, '^[^\n]*\n[^\n]*\n(.*)$')
    local delivered, thirds = counted(tonumber(string.sub(item, 1, 1)) or 0)
    ended[#ended + 1] = ARGV[i]
    local reason = ARGV[3] == '' and ARGV[4] or tries ~= 0 and delivered >= math.abs(tries)
      and 'delivered ' .. delivered .. ' times' .. ARGV[4]
    if reason then
      redis.call('RPUSH', KEYS[6], reason .. string.match(value, '^[^\n]*(\n.*)$'))
      dead = dead + 1
    else
      redis.call(ARGV[2], KEYS[tonumber(ARGV[i + 1])], delivered + 3 * thirds
        .. string.sub(item, 2))
      redis.call('ZADD', KEYS[3], -tonumber(ARGV[i + 3]), ARGV[i + 2])
      requeued = requeued + 1
    end
  end
end
if #ended > 0 then -- last: a key that has vanished cannot be read while slots move
  redis.call('HDEL', KEYS[4], unpack(ended))
  redis.call('SREM', KEYS[5], unpack(ended))
end
redis.call('HINCRBY', KEYS[2], 'ready', requeued)
redis.call('HINCRBY', KEYS[2], 'dead', dead)
return {requeued, dead}
