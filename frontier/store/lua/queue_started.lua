-- queue_started: note which reservations were started, and which of them are over.
--
-- KEYS[1]  started  set of the ids of reservations that were started
-- KEYS[2]  lease    hash {token, holder}
-- ARGV[1]  keep_s   for how many seconds a set is kept that nobody removes
-- ARGV[2]  begun    how many ids follow that were started; the others are over
-- ARGV[3...]        ids
--
-- Returns nothing. Where there is no lease the partition was lost, and nothing is
-- noted.

if redis.call('EXISTS', KEYS[2]) == 0 then
  return
end
local begun = tonumber(ARGV[2])
if begun > 0 then
  redis.call('SADD', KEYS[1], unpack(ARGV, 3, begun + 2))
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
if #ARGV > begun + 2 then
  redis.call('SREM', KEYS[1], unpack(ARGV, begun + 3))
end
