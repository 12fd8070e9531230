-- rounds: end the round of a site, and say when its next one is due.
--
-- KEYS[1]  sites   sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site    hash {state, want, round, emitted, wait, ...} of one site
-- ARGV[1]  name    of the site
--
-- text(number) is it without an exponent. numbers(...) is those fields of the site, 0 for
-- what is not a number. rest(now, emitted, wait, wanted) has the site be in the state that is
-- wanted: an active one waits for its next round. end_round(now) ends the round, and makes the
-- wait shorter if there was something new.

local function text(number) return string.format('%.0f', number) end

local function numbers(...)
  local values = redis.call('HMGET', KEYS[2], ...)
  for i = 1, #values do
    local value = values[i]
    values[i] = value and #value < 16 and value:find('^%d+$') and tonumber(value) or 0
  end
  return unpack(values)
end

local function rest(now, emitted, wait, wanted)
  if wanted == 'paused' or wanted == 'ended' then
    redis.call('HSET', KEYS[2], 'state', wanted)
    redis.call('ZADD', KEYS[1], '+inf', ARGV[1])
    return
  end
  redis.call('HSET', KEYS[2], 'state', 'waiting', 'wait', text(wait))
  local due = emitted == 0 and now or math.min(emitted, now) + wait * 1000
  redis.call('ZADD', KEYS[1], text(math.max(due, now)), ARGV[1])
end

local function end_round(now)
  local emitted, found, wait, least, most = numbers(
    'emitted', 'found', 'wait', 'wait_min', 'wait_max')
  wait = found > 0 and math.floor(wait / 2) or math.ceil(wait * 1.5)
  wait = math.max(least, math.min(wait, math.max(least, most)), 1)
  redis.call('HSET', KEYS[2], 'found', '0')
  rest(now, emitted, wait, redis.call('HGET', KEYS[2], 'want'))
end
