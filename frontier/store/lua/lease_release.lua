-- lease_release: give partitions back before their leases end.
-- include: parts
--
-- KEYS[1...]  of each partition 1 `lease`, the hash {token, holder}, and 2 `fence`, the
--             last token issued
-- ARGV[1...]  of each partition the token lease_acquire returned
--
-- Returns for each 1, or nil if the token is not the current one, as after a release
-- that is repeated. The fence grows, so that a renewal that was sent before and arrives
-- afterwards does not bring the lease back.

local function release(keys, args)
  if redis.call('HGET', keys[1], 'token') ~= args[1] then return false end
  redis.call('INCR', keys[2]) -- which fails before anything is written
  redis.call('DEL', keys[1])
  return 1
end

return each_part(2, 0, 1, release)
