-- seed_hold: be the one command that loads a seed list, and say how far it is.
-- include: clock
--
-- KEYS[1]  meta      hash {state, ...}
-- KEYS[2]  seed_lists  hash: digest of a seed list to how many lines are done
-- KEYS[3]  lock      string: the command that loads it
-- KEYS[4]  seeding   sorted set: digests of lists, by until when each keeps the crawl open
-- ARGV[1]  list_id   digest of the seed list
-- ARGV[2]  holder    name of the command
-- ARGV[3]  ttl_ms    how long the lock lives, and the crawl stays open
-- ARGV[4]  lines     how many lines the holder knows to be in the store
--
-- Returns {'yours', lines}, {'taken', 0}, {'closed', 0} if the crawl has ended, or
-- {'lost', 0} if there is none. Also renews: the holder calls it again, with more lines.

local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'open' then
  return {state and 'closed' or 'lost', 0}
end
local holder = redis.call('GET', KEYS[3])
if holder and holder ~= ARGV[2] then
  return {'taken', 0}
end
local known = redis.call('HGET', KEYS[2], ARGV[1])
local lines = math.max(tonumber(ARGV[4]), tonumber(known or '0') or 0)
if lines > 0 then
  redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', lines))
end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[4], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now_text)
return {'yours', lines}
