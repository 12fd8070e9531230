-- address_say: note that a seed leads to an address of a class, or learn what is noted.
--
-- KEYS[1]  meta   hash {address:<class>, ...}
-- ARGV[1]  field  'address:<class>' to note, or '' to learn only
-- ARGV[2]  how    'typed' if the seed itself spells it, else 'named'
-- ARGV[3]  born   the crawl's mark, or '' if it has none
--
-- Returns how each of public, private and loopback is noted, nil for not at all; or
-- 'lost' if the crawl is not there. 'typed' stays, whatever is noted later.

if redis.call('EXISTS', KEYS[1]) == 0 or
    (redis.call('HGET', KEYS[1], 'born') or '') ~= ARGV[3] then
  return 'lost'
end
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], ARGV[1]) ~= 'typed' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'address:public', 'address:private',
  'address:loopback')
