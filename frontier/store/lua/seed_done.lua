-- seed_done: say that a seed list is in the store, and give its lock back.
-- include: clock
--
-- KEYS[1]  meta      hash {state, seeding_ms, seeding, ...}
-- KEYS[2]  seed_lists  hash: digest of a seed list to how many lines are done
-- KEYS[3]  lock      string: the command that loaded it
-- ARGV[1]  list_id   digest of the seed list
-- ARGV[2]  holder    name of the command
-- ARGV[3]  grace_ms  how long the crawl stays open from now on
--
-- Returns 1, or 0 if another command has the lock, or the crawl is not there. The list
-- is forgotten: to load it again is to test all of it again. Where several lists are loaded at
-- once (`seeding` names one that is loaded alone), none that ends cuts the time
-- for which the others keep the crawl open.

if redis.call('GET', KEYS[3]) ~= ARGV[2] or redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('DEL', KEYS[3])
redis.call('HDEL', KEYS[2], ARGV[1])
local before = redis.call('HMGET', KEYS[1], 'seeding_ms', 'seeding')
local open_until = now + tonumber(ARGV[3])
if before[2] ~= ARGV[1] then
  open_until = math.max(open_until, math.min(now + 60000, tonumber(before[1] or '') or 0))
end
redis.call('HSET', KEYS[1], 'seeding_ms', string.format('%.0f', open_until))
return 1
