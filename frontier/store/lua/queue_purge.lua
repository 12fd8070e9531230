-- queue_purge: take URLs out of one list: they are not fetched, or are due now.
-- include: numbers waiting_lists
--
-- KEYS[1]  counts  hash {born, ready, waiting, ..., skipped}
-- KEYS[2]  names   sorted set of the names of the lists that have something: queues, or due
-- KEYS[3]  list    a ready list, or what waits in a bucket
-- KEYS[4]  sooner  the list of the bucket `sooner`, if there is one
-- ARGV[1]  born    of the crawl that the caller knows; '' if it has none
-- ARGV[2]  name    of the list in that set
-- ARGV[3]  level   what counts it: ready or waiting
-- ARGV[4]  first   where in the list to look
-- ARGV[5]  many    at how many of its elements
-- ARGV[6]  sooner  another bucket, a time in ms, in which what waited is to wait; or ''
-- ARGV[7...]       the elements; without any, all
--
-- Returns {taken, 1 if the bucket `sooner` is new and the next that is due, else 0}: how
-- many were taken out. Without that bucket they are counted as skipped, and stay seen. Or
-- {-1, 0}, and does nothing, if the partition is another crawl's. No lease is needed: what
-- its holder has reserved is not in the list any more, and each URL is in one list at any
-- moment.

if (redis.call('HGET', KEYS[1], 'born') or '') ~= ARGV[1] then return {-1, 0} end
local wanted = {}
for i = 7, #ARGV do wanted[ARGV[i]] = true end
local first, long = tonumber(ARGV[4]), redis.call('LLEN', KEYS[3])
local found = redis.call('LRANGE', KEYS[3], first, first + tonumber(ARGV[5]) - 1)
local places, chosen, is_next = {}, {}, false
for i, item in ipairs(found) do
  if #ARGV == 6 or wanted[item] then
    places[#places + 1], chosen[#chosen + 1] = first + i - 1, item
  end
end
if #chosen == 0 then return {0, 0} end
redis.call('ZSCORE', KEYS[2], ARGV[2]) -- what fails, fails before the list is changed
if KEYS[4] then
  is_next = wait_for_due(KEYS[4], KEYS[2], ARGV[6], 0, chosen)
else
  local names = {ARGV[3], 'skipped'}
  local why = no_number(1, names, redis.call('HMGET', KEYS[1], unpack(names)))
  if why then return redis.error_reply(why) end
  redis.call('HINCRBY', KEYS[1], ARGV[3], -#chosen)
  redis.call('HINCRBY', KEYS[1], 'skipped', #chosen)
end
if #chosen == long then redis.call('ZREM', KEYS[2], ARGV[2]) end
for _, at in ipairs(places) do redis.call('LSET', KEYS[3], at, '-') end -- it is no item
-- From the nearer end, and last: a list that has vanished cannot be read as slots move.
redis.call('LREM', KEYS[3], first * 2 < long and #chosen or -#chosen, '-')
return {#chosen, is_next and 1 or 0}
