-- round_begin: take a site that is due: begin a round, emit it again, look at it, or end it.
-- include: clock rounds
--
-- KEYS[1]  sites    sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site     hash {state, want, round, emitted, wait, ...} of one site
-- KEYS[3]  round    hash: id of a URL in progress to '<a|q><partition>:<feed> <url>'
-- KEYS[4]  had      set of ids of URLs that this round is done with
-- KEYS[5]  rounds   list of the site's last rounds, the newest first
-- ARGV[1]  name     of the site
-- ARGV[2]  node     node id of the taker
-- ARGV[3]  look_ms  when the site is to be looked at again
-- ARGV[4]  max_ms   a round that takes longer is ended
-- ARGV[5]  idle_ms  if nothing of the site may be fetched, when it is looked at again; else ''
--
-- Returns {what, round, more...}: 'not' if it is not due, or is to have no round; 'begin'
-- and the site's config if the caller is to emit its feeds, as nobody has, or not all of
-- them; 'look' and up to 1,000 ids in progress, each with its value; 'over' and the same if
-- the round was ended.

local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not due or tonumber(due) > now then
  return {'not', 0}
end
local state, whole, config =
  unpack(redis.call('HMGET', KEYS[2], 'state', 'whole', 'config'))
if state ~= 'waiting' and state ~= 'crawling' then
  redis.call('ZREM', KEYS[1], ARGV[1]) -- it is no site, or was damaged
  return {'not', 0}
end
if state == 'waiting' and ARGV[5] ~= '' then
  redis.call('ZADD', KEYS[1], text(now + tonumber(ARGV[5])), ARGV[1])
  return {'not', 0}
end
if state == 'waiting' then
  redis.call('HSET', KEYS[2], 'state', 'crawling', 'round', text(numbers('round') + 1),
    'emitted', now_text, 'whole', '0', 'found', '0', 'urls', '0', 'feeds', '0', 'lost', '0',
    'failed', '0')
  redis.call('DEL', KEYS[3], KEYS[4])
  whole = '0'
end
local round, emitted = numbers('round', 'emitted')
local is_over = now - emitted >= tonumber(ARGV[4])
redis.call('ZADD', KEYS[1], text(now + tonumber(ARGV[3])), ARGV[1])
if whole ~= '1' and not is_over then
  redis.call('HSET', KEYS[2], 'by', ARGV[2])
  return {'begin', round, config or ''}
end
local left, told = redis.call('HGETALL', KEYS[3]), {'look', round}
for i = 1, math.min(#left, 2000) do told[i + 2] = left[i] end
if is_over or #left == 0 then
  told[1] = 'over'
  end_round(now, #left / 2)
end
return told
