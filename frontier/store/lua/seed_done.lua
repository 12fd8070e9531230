-- seed_done: say that a seed list is in the store, and give its lock back.
-- include: clock
--
-- KEYS[1]  meta      hash {state, ...}
-- KEYS[2]  seed_lists  hash: digest of a seed list to how many lines are done
-- KEYS[3]  lock      string: the command that loaded it
-- KEYS[4]  seeding   sorted set: digests of lists, by until when each keeps the crawl open
-- ARGV[1]  list_id   digest of the seed list
-- ARGV[2]  holder    name of the command
-- ARGV[3]  grace_ms  how long the crawl stays open from now on
--
-- Returns 1, or 0 if another command has the lock, or the crawl is not there. The list
-- is forgotten: to load it again is to test all of it again.

if redis.call('GET', KEYS[3]) ~= ARGV[2] or redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('DEL', KEYS[3])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[4], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
return 1
