-- queue_ack: end reservations whose links and records are stored.
-- include: fence
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[4]  started   set of the ids of what was started
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2...]         ids
--
-- Returns how many ended, or nil if the token is not the current one.

redis.call('SREM', KEYS[4], unpack(ARGV, 2)) -- first, so that if it fails nothing is acked
local ended = redis.call('HDEL', KEYS[3], unpack(ARGV, 2))
redis.call('HINCRBY', KEYS[2], 'acked', ended)
return ended
