-- lease_release: give a partition back before its lease ends.
-- include: fence
--
-- KEYS[1]  lease  hash {token, holder}
-- ARGV[1]  token  the token lease_acquire returned
--
-- Returns 1, or nil if the token is not the current one.

redis.call('DEL', KEYS[1])
return 1
