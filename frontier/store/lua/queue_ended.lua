-- queue_ended: note which request's callback ran when its node ended, or hung.
--
-- KEYS[1]  started  set of the ids of reservations that were started, and of notes
-- KEYS[2]  fence    integer, the last token issued
-- ARGV[1]  keep_s   for how many seconds a set is kept that nobody removes
-- ARGV[2]  token    under which the node held the partition
-- ARGV[3]  id       of that request's reservation; 0 if it is in another partition
-- ARGV[4]  node     node id
--
-- Returns 1, or 0 if nothing was started there, or another node has it by now.
-- Of what was started under that token only that one is counted as delivered in
-- full; see queue_requeue. An earlier note of the token is replaced: the node was given up,
-- came back in time, and has ended in something else.

if redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return 0
end
if ARGV[3] ~= '0' then
  redis.call('SADD', KEYS[1], ARGV[3])
elseif redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local under = table.concat({'ended', ARGV[2], ''}, ' ')
for _, member in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if string.sub(member, 1, #under) == under then
    redis.call('SREM', KEYS[1], member)
  end
end
redis.call('SADD', KEYS[1], table.concat({'ended', ARGV[2], ARGV[3], ARGV[4]}, ' '))
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1
