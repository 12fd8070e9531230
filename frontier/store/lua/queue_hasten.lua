-- queue_hasten: have URLs that wait in a bucket wait in another that is due now.
-- include: waiting_lists
--
-- KEYS[1]  due      sorted set of buckets, scored by when they are due, ms
-- KEYS[2]  waiting  list of the bucket: '<queue>\n<item>'
-- KEYS[3]  sooner   list of the bucket that is due now
-- ARGV[1]  bucket   the one that they are in
-- ARGV[2]  sooner   the other, a time in ms
-- ARGV[3]  count    how many elements at the head the caller has read
-- ARGV[4]  first    of these the first element,
-- ARGV[5]  last     and the last
-- ARGV[6...]        the places of those to be moved, counted from 1, in their order
--
-- The others of these go to the end, so that the next call finds what nobody has read.
-- No lease is needed: what waits, waits on, and each URL is in one list at any moment.
-- Returns {moved, 1 if the bucket is new and the next that is due, else 0}, or nil if the
-- head is not what the caller has read.

local count, chosen, rest, at = tonumber(ARGV[3]), {}, {}, 6
redis.call('ZCARD', KEYS[1]) -- what fails, fails before anything is moved
redis.call('LLEN', KEYS[3])
local head = redis.call('LRANGE', KEYS[2], 0, count - 1)
if #head ~= count or head[1] ~= ARGV[4] or head[count] ~= ARGV[5] then return false end
for place, element in ipairs(head) do
  if tonumber(ARGV[at] or '0') == place then
    chosen[#chosen + 1], at = element, at + 1
  else
    rest[#rest + 1] = element
  end
end
local long = redis.call('LLEN', KEYS[2]) -- before it may vanish, as slots move
redis.call('LTRIM', KEYS[2], count, -1)
if #rest > 0 then redis.call('RPUSH', KEYS[2], unpack(rest)) end
if #chosen == 0 then return {0, 0} end
local first = wait_for_due(KEYS[3], KEYS[1], ARGV[2], 0, chosen)
if long == #chosen then redis.call('ZREM', KEYS[1], ARGV[1]) end
return {#chosen, first and 1 or 0}
