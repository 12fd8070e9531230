-- collection_hold: be the one that commits rounds, or purges, in a collection.
--
-- KEYS[1]  committer string: the random name of who does; expires
-- ARGV[1]  token     the caller's
-- ARGV[2]  ttl_ms    for how long; 0 to end it
--
-- Returns 1, or 0 and does nothing if it is somebody else.

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and redis.call('PTTL', KEYS[1]) > 0 then
  return 0 -- one that does not expire is nobody's
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1
