-- lease_release: give a partition back.
--
-- KEYS[1]  lease  hash {token, holder}, which stays
-- ARGV[1]  token  the token lease_acquire returned
--
-- Returns 1, or nil if the token is not the current one, as of a release that is late. The
-- token ends with the lease: what was sent under it, and arrives later, is refused.

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return nil
end
redis.call('HDEL', KEYS[1], 'holder')
redis.call('HINCRBY', KEYS[1], 'token', 1)
return 1
