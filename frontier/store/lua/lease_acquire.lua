-- lease_acquire: take a partition that nobody holds.
-- include: clock numbers
--
-- KEYS[1]  lease     hash {token, holder}, expires with the lease
-- KEYS[2]  fence     integer, the last token issued
-- KEYS[3]  counts    hash {born, ready, ...}
-- KEYS[4]  reserved  hash of reservations
-- ARGV[1]  holder    node id, for people to read
-- ARGV[2]  ttl_ms    how long the lease lives
-- ARGV[3]  born      of the crawl; '' if it has none
--
-- Returns {token, ready, reserved}, or nil if the partition is taken, or -2 if it is
-- set aside. Or -1 if it is not marked as of that crawl: what was in it is lost, or
-- is another crawl's. A fence or counts that cannot be are an error: a default would
-- hand out a token twice, or end a crawl that is not done.
-- The token is at least the server's time, so that it still grows after a
-- fail-over that lost the last fence. Not reentrant: the token is the only
-- proof of ownership, and a restarted node waits like any other.

local token = redis.call('HGET', KEYS[1], 'token')
if token == 'aside' then
  return -2
end
local names = {'ready', 'pushed', 'seq', 'acked', 'dead', 'blocks'}
local counts = redis.call('HMGET', KEYS[3], 'born', unpack(names))
if (counts[1] or '') ~= ARGV[3] then
  if counts[1] and not string.find(counts[1], '^%w+$') then
    return redis.error_reply('BADKEY 3 its born is not the mark of a crawl')
  end
  return -1
end
local why = no_number(3, names, {unpack(counts, 2)})
if why then return redis.error_reply(why) end
if redis.call('EXISTS', KEYS[1]) == 1 then
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 or left > tonumber(ARGV[2]) then -- the clock was set back, or not ours
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return nil
end

local last = redis.call('GET', KEYS[2]) or '0'
if not string.find(last, '^%d+$') or #last > 15 then
  return redis.error_reply('BADKEY 2 it is not a token')
end
local reserved = redis.call('HLEN', KEYS[4]) -- which fails before anything is written
token = string.format('%.0f', math.max(tonumber(last) + 1, now))

redis.call('SET', KEYS[2], token, 'EX', 86400)
redis.call('HSET', KEYS[1], 'token', token, 'holder', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {token, counts[2] or '0', reserved}
