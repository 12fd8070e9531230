-- queue_answered: forget the back-off of hosts that have answered.
-- include: clock back_off_mark
--
-- KEYS[1]  back_off  hash: host to '<until, ms> <since, ms> <failures> <reason>', and '' to
--                    a mark of the last change
-- ARGV[1...]         for each host: its name, and milliseconds since the request was sent
--                    that it has answered
--
-- Returns how many were forgotten. An answer to what was sent before the back-off began
-- says nothing of it. One that a server wants (429, 503) holds until it is over: what was
-- sent during it came from a node that had not heard of it.

local forgotten = 0
for i = 1, #ARGV, 2 do
  local entry = redis.call('HGET', KEYS[1], ARGV[i])
  local till, since, reason = (entry or ''):match('^(%d+) (%d+) %d+ (%l+)$')
  local wanted = reason == 'throttled' or reason == 'unavailable'
  local from = tonumber(wanted and till or since or '0')
  if entry and from <= now - tonumber(ARGV[i + 1]) then
    forgotten = forgotten + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
if forgotten > 0 and redis.call('HLEN', KEYS[1]) > 1 then
  redis.call('HSET', KEYS[1], '', next_mark())
elseif forgotten > 0 then
  redis.call('DEL', KEYS[1])
end
return forgotten
