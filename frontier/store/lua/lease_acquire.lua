-- lease_acquire: take a partition that nobody holds.
--
-- KEYS[1]  lease     hash {token, holder}, expires with the lease
-- KEYS[2]  fence     integer, the last token issued
-- KEYS[3]  counts    hash {born, ready, ...}
-- KEYS[4]  reserved  hash of reservations
-- ARGV[1]  holder    node id, for people to read
-- ARGV[2]  ttl_ms    how long the lease lives
-- ARGV[3]  born      of the crawl; '' if it has none
--
-- Returns {token, ready, reserved}, or nil if the partition is taken. Or -1 if it
-- is not marked as of that crawl: what was in it is lost, or is another crawl's.
-- The token is at least the server's time, so that it still grows after a
-- fail-over that lost the last fence. Not reentrant: the token is the only
-- proof of ownership, and a restarted node waits like any other.

if (redis.call('HGET', KEYS[3], 'born') or '') ~= ARGV[3] then
  return -1
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then -- the clock was set back
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return nil
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local token = string.format('%.0f', math.max(last + 1, now))

redis.call('SET', KEYS[2], token, 'EX', 86400)
redis.call('HSET', KEYS[1], 'token', token, 'holder', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {token, redis.call('HGET', KEYS[3], 'ready') or '0', redis.call('HLEN', KEYS[4])}
