-- queue_ack: end reservations whose links and records are stored.
-- include: fence
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[4...]         `spent`, only where hosts have quotas
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2...]         ids; with quotas, '<id> <pages> <bytes> <queue key>'
--
-- Returns how many ended, or nil if the token is not the current one. What a queue
-- key has had is counted with the end of its reservation, and so only once.

local ended = 0
if #KEYS == 3 then
  ended = redis.call('HDEL', KEYS[3], unpack(ARGV, 2))
else
  local spent = KEYS[#KEYS]
  for i = 2, #ARGV do
    local id, pages, bytes, key = string.match(ARGV[i], '^(%d+) (%d+) (%d+) (.*)$')
    if redis.call('HDEL', KEYS[3], id) == 1 then
      ended = ended + 1
      redis.call('HINCRBY', spent, 'pages:' .. key, pages)
      redis.call('HINCRBY', spent, 'bytes:' .. key, bytes)
    end
  end
end
redis.call('HINCRBY', KEYS[2], 'acked', ended)
return ended
