-- lease_renew: keep partitions that the caller holds.
-- include: numbers parts
--
-- KEYS[1...]  of each partition 1 `lease`, the hash {token, holder}, 2 `fence`, the
--             last token issued, and 3 `counts`, the hash {ready, ...}
-- ARGV[1]  holder  node id, for people to read
-- ARGV[2]  ttl_ms  how long the leases live from now
-- ARGV[3...]       of each partition the token lease_acquire returned
--
-- Returns for each the number of ready URLs, and after it that of those that wait in a
-- list if there are any; or nil if the token is not the current one.
-- A lease that ended while nobody else took it comes back: the fence shows
-- that no other token was issued, so the caller's reservations are untouched.

local function renew(keys, args)
  local token = redis.call('HGET', keys[1], 'token')
  if not token and redis.call('GET', keys[2]) == args[1] then
    redis.call('HSET', keys[1], 'token', args[1], 'holder', ARGV[1])
  elseif token ~= args[1] then
    return false
  end
  redis.call('PEXPIRE', keys[1], ARGV[2])
  redis.call('EXPIRE', keys[2], 86400)
  local counts = redis.call('HMGET', keys[3], 'ready', 'waiting')
  local why = no_number(3, {'ready', 'waiting'}, counts)
  if why then return redis.error_reply(why) end
  local ready, waiting = tonumber(counts[1] or '0'), tonumber(counts[2] or '0')
  return waiting > 0 and {ready, waiting} or ready
end

return each_part(3, 2, 1, renew)
