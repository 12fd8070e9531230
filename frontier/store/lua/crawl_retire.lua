-- crawl_retire: say that a spider's crawl is not open any more.
--
-- KEYS[1]  spider    hash {serial, open}
-- ARGV[1]  crawl_id  the crawl that ended
--
-- Returns 1 if it was the open one, else 0.

if redis.call('HGET', KEYS[1], 'open') ~= ARGV[1] then
  return 0
end
return redis.call('HDEL', KEYS[1], 'open')
