-- queue_back_off: note that a host is to be left alone, and until when.
-- include: clock back_off_mark
--
-- KEYS[1]  back_off  hash: host to '<until, ms> <since, ms> <failures> <reason>', and '' to
--                    a mark of the last change
-- ARGV[1]  host      or queue key
-- ARGV[2]  reason    a word: what the host did
-- ARGV[3]  ago       milliseconds since the request was sent that it did it to
-- ARGV[4]  asked     milliseconds for which it wants to be left alone, or 0
-- ARGV[5]  first     milliseconds of the first back-off
-- ARGV[6]  growth    by how much each is longer than the one before
-- ARGV[7]  most      milliseconds of the longest
-- ARGV[8]  jitter    which part of it is added, so that nodes do not come back at once
-- ARGV[9]  kept      seconds for which the hash is kept at least
--
-- Returns {left, age, failures, reason}: milliseconds. Requests that were on the way when
-- the host first refused one say the same again: that is one failure, and the longest
-- time that was asked for counts. So the script may be run twice. A back-off that has
-- ended without an answer leaves its failures for the next one to count.

local entry = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local till, since, failures = entry:match('^(%d+) (%d+) (%d+) %l+$')
if not till or #entry > 60 or #failures > 6 then till, since, failures = 0, 0, 0 end
till, since, failures = tonumber(till), tonumber(since), tonumber(failures)

local asked = tonumber(ARGV[4])
local reason = ARGV[2]
if till > now or since > now - tonumber(ARGV[3]) then
  till = math.max(till, now + asked * (1 + tonumber(ARGV[8])))
  reason = entry:match('%l+$')
else
  failures, since = math.min(failures + 1, 999999), now
  local wait = math.min(tonumber(ARGV[5]) * tonumber(ARGV[6]) ^ (failures - 1), tonumber(ARGV[7]))
  till = now + math.max(wait, asked) * (1 + tonumber(ARGV[8]))
end
till = math.ceil(till)

redis.call('HSET', KEYS[1], ARGV[1],
  string.format('%.0f %.0f %.0f %s', till, since, failures, reason),
  '', next_mark())
local keep = math.ceil((till - now) / 1000) + tonumber(ARGV[9])
if redis.call('TTL', KEYS[1]) < keep then
  redis.call('EXPIRE', KEYS[1], string.format('%.0f', keep))
end
return {math.max(0, till - now), now - since, failures, reason}
