-- queue_sent: note when hosts may be asked again.
-- include: clock
--
-- KEYS[1]  next_allowed  hash: queue key to '<token> <time, ms> <delay, ms>'
-- KEYS[2]  lease   hash {token, holder}
-- ARGV[1]  token   of the lease under which requests were sent
-- ARGV[2...]       for each queue key: its name, and its delay in milliseconds
--
-- Returns nothing. The hash expires some time after the last delay is over. Where
-- there is no lease the partition was lost, and nothing is noted.

if redis.call('EXISTS', KEYS[2]) == 0 then
  return
end
local longest = 0
for i = 2, #ARGV, 2 do
  local delay = tonumber(ARGV[i + 1])
  local entry = string.format('%s %.0f %.0f', ARGV[1], now + delay, delay)
  redis.call('HSET', KEYS[1], ARGV[i], entry)
  longest = math.max(longest, delay)
end
local left = redis.call('PTTL', KEYS[1])
if left < longest + 60000 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 2 * longest + 120000))
end
