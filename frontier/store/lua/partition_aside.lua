-- partition_aside: set a partition aside: no node takes it before it is repaired.
--
-- KEYS[1]  lease  hash {token, holder}
-- ARGV[1]  why    JSON [[key, reason], ...], for people and for `crawl repair`
--
-- Returns 1, or 0 if it is set aside already. The lease is then nobody's, and does
-- not end: so each script that wants a token refuses, and lease_acquire does.

local is_hash = redis.call('TYPE', KEYS[1]).ok == 'hash'
if is_hash and redis.call('HGET', KEYS[1], 'token') == 'aside' then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'token', 'aside', 'holder', '', 'why', ARGV[1])
return 1
