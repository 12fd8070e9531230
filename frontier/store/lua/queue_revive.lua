-- queue_revive: put dead letters back to their queues, as if never delivered.
--
-- KEYS[1]  counts  hash {ready, pushed, seq, acked, dead}
-- KEYS[2]  queues  sorted set of the queues that have ready URLs
-- KEYS[3]  dead    list of '<reason>\n<queue>\n<item>'
-- KEYS[4...]       the ready lists to put back to
-- ARGV[1...]       for each letter: itself, the index in KEYS of its list, its
--                  queue's name and its priority
--
-- Returns {revived, index, ...}: how many there still were, and the KEYS that
-- were empty before. No lease is needed, as for a push.

local revived, reply = 0, {0}
for i = 1, #ARGV, 4 do
  if redis.call('LREM', KEYS[3], 1, ARGV[i]) == 1 then
    local item = string.match(ARGV[i], '^[^\n]*\n[^\n]*\n(.*)$')
    local index = tonumber(ARGV[i + 1])
    if redis.call('RPUSH', KEYS[index], '0' .. string.sub(item, 2)) == 1 then
      redis.call('ZADD', KEYS[2], -tonumber(ARGV[i + 3]), ARGV[i + 2])
      reply[#reply + 1] = index
    end
    revived = revived + 1
  end
end
if revived > 0 then
  redis.call('HINCRBY', KEYS[1], 'ready', revived)
  redis.call('HINCRBY', KEYS[1], 'dead', -revived)
end
reply[1] = revived
return reply
