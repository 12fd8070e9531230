-- lease_release: give a partition back before its lease ends.
-- include: fence
--
-- KEYS[1]  lease  hash {token, holder}
-- KEYS[2]  fence  integer, the last token issued
-- ARGV[1]  token  the token lease_acquire returned
--
-- Returns 1, or nil if the token is not the current one, as after a release that is
-- repeated. The fence grows, so that a renewal that was sent before and arrives
-- afterwards does not bring the lease back.

redis.call('INCR', KEYS[2]) -- which fails before anything is written
redis.call('DEL', KEYS[1])
return 1
