-- lease_acquire: take those partitions that nobody holds.
-- include: clock numbers parts
--
-- KEYS[1...]  of each partition 1 `lease`, the hash {token, holder}, which expires with
--             the lease, 2 `fence`, the last token issued, 3 `counts`, the hash {born,
--             ready, ...}, and 4 `reserved`, the hash of reservations
-- ARGV[1]  holder    node id, for people to read
-- ARGV[2]  ttl_ms    how long the leases live
-- ARGV[3]  born      of the crawl; '' if it has none
--
-- Returns for each {token, ready, reserved, waiting}, or nil if the partition is taken. Or
-- -1 if it is not marked as of that crawl: what was in it is lost, or is another crawl's.
-- A fence or counts that cannot be are an error: a default would hand out a token twice, or
-- end a crawl that is not done.
-- The token is at least the server's time, so that it still grows after a
-- fail-over that lost the last fence. Not reentrant: the token is the only
-- proof of ownership, and a restarted node waits like any other.

local NAMES = {'ready', 'pushed', 'seq', 'acked', 'dead', 'waiting'}

local function acquire(keys)
  local token = redis.call('HGET', keys[1], 'token')
  local born, ready, waiting = redis.call('HGET', keys[3], 'born') or '', '0', '0'
  if born ~= ARGV[3] then
    if born ~= '' and not string.find(born, '^%w+$') then
      return redis.error_reply('BADKEY 3 its born is not the mark of a crawl')
    end
    return -1
  end
  if born == '' or redis.call('HLEN', keys[3]) > 1 then -- else nothing was ever pushed
    local counts = redis.call('HMGET', keys[3], unpack(NAMES))
    local why = no_number(3, NAMES, counts)
    if why then return redis.error_reply(why) end
    ready, waiting = counts[1] or '0', counts[6] or '0'
  end
  if token then
    local left = redis.call('PTTL', keys[1])
    if left < 0 or left > tonumber(ARGV[2]) then -- the clock was set back, or not ours
      redis.call('PEXPIRE', keys[1], ARGV[2])
    end
    return false
  end
  local last = redis.call('GET', keys[2]) or '0'
  if not string.find(last, '^%d+$') or #last > 15 then
    return redis.error_reply('BADKEY 2 it is not a token')
  end
  local reserved = redis.call('HLEN', keys[4]) -- which fails before anything is written
  token = string.format('%.0f', math.max(tonumber(last) + 1, now))
  redis.call('SET', keys[2], token, 'EX', 86400)
  redis.call('HSET', keys[1], 'token', token, 'holder', ARGV[1])
  redis.call('PEXPIRE', keys[1], ARGV[2])
  return {token, ready, reserved, waiting}
end

return each_part(4, 3, 0, acquire)
