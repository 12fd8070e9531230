-- site_update: have a site be as the configuration says.
-- include: clock rounds
--
-- KEYS[1]  sites   sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site    hash {state, want, round, emitted, wait, ...} of one site
-- ARGV[1]  name    of the site
-- ARGV[2]  want    active, paused or ended
-- ARGV[3]  config  msgpack [[url, [implied, ...]], ...]; '' leaves what it has
-- ARGV[4]  least   seconds between two rounds, at least; '' leaves it
-- ARGV[5]  most    seconds that the wait never exceeds; '' leaves it
--
-- Returns 'same' if it is so already, else 'updated'. A site that is new, or wanted again, is
-- due once its wait is over; a round ends if its site is not wanted any more.

local old = redis.call('HMGET', KEYS[2], 'want', 'config', 'wait_min', 'wait_max', 'state')
local new = {ARGV[2], ARGV[3], ARGV[4], ARGV[5]}
local same, waits = old[5] and redis.call('ZSCORE', KEYS[1], ARGV[1]), true
for i = 1, 4 do
  if new[i] == '' then new[i] = old[i] or '' end
  if new[i] ~= old[i] then
    same = false
    if i > 2 then waits = false end
  end
end
if same then
  return 'same'
end
redis.call('HSET', KEYS[2], 'want', new[1], 'config', new[2],
  'wait_min', new[3], 'wait_max', new[4])
if not waits then redis.call('HSET', KEYS[2], 'wait', new[3]) end
local emitted, wait, whole = numbers('emitted', 'wait', 'whole')
if old[5] ~= 'crawling' then
  rest(now, emitted, math.max(wait, 1), new[1])
elseif new[1] ~= 'active' then
  end_round(now)
elseif whole == 1 then
  redis.call('ZADD', KEYS[1], text(math.max(now, emitted + wait * 1000)), ARGV[1])
end
return 'updated'
