-- queue_again: end reservations, and have their URLs wait to be fetched once more.
-- include: fence numbers waiting_lists
--
-- KEYS[1]  lease     hash {token, holder}
-- KEYS[2]  counts    hash {ready, waiting, pushed, seq, acked, dead}
-- KEYS[3]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[4]  due       sorted set of buckets, scored by when they are due, ms
-- KEYS[5]  waiting   list of the bucket: '<queue>\n<item>'
-- KEYS[6]  started   set of the ids of what was started
-- ARGV[1]  token     the token lease_acquire returned
-- ARGV[2]  bucket    its time, ms
-- ARGV[3]  delay     ms from now that have to pass all the same
-- ARGV[4...]         for each: its id, and '<queue>\n<item>', what waits in its place
--
-- Returns {ended, 1 if the bucket is new and the next that is due, else 0}, or nil if the
-- token is not the current one. Each counts as acked and as pushed. A reservation that
-- has ended before, as the call came twice, does nothing.

local ids, elements = {}, {}
local names = {'waiting', 'pushed', 'acked'}
local why = no_number(2, names, redis.call('HMGET', KEYS[2], unpack(names)))
if why then return redis.error_reply(why) end
redis.call('LLEN', KEYS[5]) -- what fails, fails before anything is ended
redis.call('ZCARD', KEYS[4])
for i = 4, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[3], ARGV[i]) == 1 then
    ids[#ids + 1], elements[#elements + 1] = ARGV[i], ARGV[i + 1]
  end
end
if #ids == 0 then return {0, 0} end
redis.call('SREM', KEYS[6], unpack(ids))
local first = wait_for_due(KEYS[5], KEYS[4], ARGV[2], ARGV[3], elements)
redis.call('HDEL', KEYS[3], unpack(ids))
for _, name in ipairs(names) do redis.call('HINCRBY', KEYS[2], name, #ids) end
return {#ids, first and 1 or 0}
