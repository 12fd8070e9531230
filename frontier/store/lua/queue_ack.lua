-- queue_ack: end reservations whose links and records are stored.
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2...]         ids
--
-- Returns how many ended, or nil if the token is not the current one.

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return nil
end
local ended = redis.call('HDEL', KEYS[3], unpack(ARGV, 2))
redis.call('HINCRBY', KEYS[2], 'acked', ended)
return ended
