-- queue_bury: give up a reserved URL that no node can process.
-- include: fence
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, pushed, seq, acked, dead}
-- KEYS[3]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[4]  dead      list of '<reason>\n<queue>\n<item>'
-- KEYS[5]  started   set of the ids of what was started
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2]  id        of the reservation
-- ARGV[3]  reason    one line, for people to read
--
-- Returns 1, 0 if there is no such reservation, or nil if the token is not the
-- current one.

local value = redis.call('HGET', KEYS[3], ARGV[2])
if not value then
  return 0
end
redis.call('SREM', KEYS[5], ARGV[2])
redis.call('RPUSH', KEYS[4], ARGV[3] .. string.match(value, '^[^\n]*(\n.*)$'))
redis.call('HDEL', KEYS[3], ARGV[2]) -- after what may fail
redis.call('HINCRBY', KEYS[2], 'dead', 1)
return 1
