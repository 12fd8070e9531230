-- lease_renew: keep a partition that the caller holds.
-- include: numbers
--
-- KEYS[1]  lease   hash {token, holder}
-- KEYS[2]  fence   integer, the last token issued
-- KEYS[3]  counts  hash {ready, ...}
-- ARGV[1]  holder  node id, for people to read
-- ARGV[2]  ttl_ms  how long the lease lives from now
-- ARGV[3]  token   the token lease_acquire returned
--
-- Returns the number of ready URLs, or nil if the token is not the current one.
-- A lease that ended while nobody else took it comes back: the fence shows
-- that no other token was issued, so the caller's reservations are untouched.

local token = redis.call('HGET', KEYS[1], 'token')
if not token and redis.call('GET', KEYS[2]) == ARGV[3] then
  redis.call('HSET', KEYS[1], 'token', ARGV[3], 'holder', ARGV[1])
elseif token ~= ARGV[3] then
  return nil
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], 86400)
local ready = redis.call('HGET', KEYS[3], 'ready') or '0'
local why = no_number(3, {'ready'}, {ready})
if why then return redis.error_reply(why) end
return tonumber(ready)
