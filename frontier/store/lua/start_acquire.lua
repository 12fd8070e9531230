-- start_acquire: become the one node that loads a seed list.
--
-- KEYS[1]  seed_lists  hash: digest of a seed list to 'done'
-- KEYS[2]  lock      string: the node that loads it
-- KEYS[3]  meta      hash {state, born, ...}
-- ARGV[1]  start_id  digest of the seed list
-- ARGV[2]  holder    node id
-- ARGV[3]  ttl_ms    how long the lock lives
-- ARGV[4]  born      of the crawl; '' if it has none
--
-- Returns 'done', 'yours' or 'taken'; 'lost' if that crawl is not there. Also renews:
-- the holder calls it again.

local meta = redis.call('HMGET', KEYS[3], 'state', 'born')
if not meta[1] or (meta[2] or '') ~= ARGV[4] then
  return 'lost'
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return 'done'
end
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[2] then
  local left = redis.call('PTTL', KEYS[2])
  if left < 0 or left > tonumber(ARGV[3]) then -- the clock was set back, or not ours
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
  end
  return 'taken'
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 'yours'
