-- site_take: begin the round of a site that is due, or have its feeds be queued again.
-- include: clock rounds
--
-- KEYS[1]  sites    sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site     hash {state, want, round, emitted, wait, ...} of one site
-- KEYS[3]  claimed  hash: fingerprint of a page to '<round> <feed>', see round_claim
-- ARGV[1]  name     of the site
-- ARGV[2]  look_ms  when its feeds are queued again, if nobody says that they are
--
-- Returns {round, now, config} if the caller is to queue the feeds, and say so; {0} if the
-- site is not due. A round whose feeds have not all answered is over when the next one is.

local MOST_CLAIMED = 1000

local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not due or tonumber(due) > now then
  return {0}
end
local state, whole, config = unpack(redis.call('HMGET', KEYS[2], 'state', 'whole', 'config'))
if state ~= 'waiting' and state ~= 'crawling' then
  redis.call('ZREM', KEYS[1], ARGV[1]) -- it is no site
  return {0}
end
local is_emitted = state == 'crawling' and whole == '1'
if is_emitted then end_round(now) end
if state == 'waiting' or is_emitted then
  redis.call('HSET', KEYS[2], 'state', 'crawling', 'round', text(numbers('round') + 1),
    'emitted', now_text, 'whole', '0', 'feeds', '0', 'answered', '0')
  -- Feeds of earlier rounds may still answer. But nothing may grow for ever.
  if redis.call('HLEN', KEYS[3]) > MOST_CLAIMED then redis.call('DEL', KEYS[3]) end
end
redis.call('ZADD', KEYS[1], text(now + tonumber(ARGV[2])), ARGV[1])
return {numbers('round'), now_text, config or ''}
