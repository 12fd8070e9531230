-- crawl_allot: name the open crawl of a spider, or the next one.
--
-- KEYS[1]  spider  hash {serial, open}
-- ARGV[1]  name    the spider's name
--
-- Returns the id of the crawl that is open from now on.

local open = redis.call('HGET', KEYS[1], 'open')
if open then
  return open
end
open = ARGV[1] .. '-' .. redis.call('HINCRBY', KEYS[1], 'serial', 1)
redis.call('HSET', KEYS[1], 'open', open)
return open
