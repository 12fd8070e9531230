-- lease_break: end the lease of a node that was removed.
--
-- KEYS[1]  lease   hash {token, holder}
-- KEYS[2]  fence   integer, the last token issued
-- ARGV[1]  holder  node id
--
-- Returns 1, or 0 if somebody else holds the partition, or nobody does. The
-- fence grows, so that the node cannot renew what it had.

if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('INCR', KEYS[2])
return 1
