-- lease_look: see what there is to do in a partition that the caller holds.
-- include: fence numbers
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, waiting, ...}
-- KEYS[3]  reserved  hash of reservations
-- ARGV[1]  token     the token lease_acquire returned
--
-- Returns {ready, waiting, reserved}, or nil if the token is not the current one.

local counts = redis.call('HMGET', KEYS[2], 'ready', 'waiting')
local why = no_number(2, {'ready', 'waiting'}, counts)
if why then return redis.error_reply(why) end
return {tonumber(counts[1] or '0'), tonumber(counts[2] or '0'), redis.call('HLEN', KEYS[3])}
