-- round_note: note which feeds a round has queued and which have answered; end it with the last.
-- include: clock rounds
--
-- KEYS[1]  sites   sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site    hash {state, want, round, emitted, wait, ...} of one site
-- ARGV[1]  name    of the site
-- ARGV[2]  round   the number of the round
-- ARGV[3]  asked   msgpack [digest, ...] of all feeds that it has queued; '' if it has not
-- ARGV[4]  feed    msgpack [digest, items, field, value, ...] of one that answered, or []
--
-- Returns 'noted'. A feed counts once in each round, however often its answer is noted, and
-- an answer that comes after one of a later round changes nothing.

local state, round = unpack(redis.call('HMGET', KEYS[2], 'state', 'round'))
local is_current = state == 'crawling' and round == ARGV[2]
local feed = cmsgpack.unpack(ARGV[4])
local at = 'at:' .. (feed[1] or '')
if state and feed[1] and tonumber(ARGV[2]) > numbers(at) then
  redis.call('HSET', KEYS[2], at, ARGV[2], unpack(feed, 3))
  redis.call('HINCRBY', KEYS[2], 'found', feed[2])
  redis.call('HINCRBY', KEYS[2], 'items', feed[2])
  if is_current then redis.call('HINCRBY', KEYS[2], 'answered', 1) end
end
local emitted, wait = numbers('emitted', 'wait')
if is_current and ARGV[3] ~= '' and numbers('whole') == 0 then
  local asked = cmsgpack.unpack(ARGV[3])
  for _, digest in ipairs(asked) do
    redis.call('HSET', KEYS[2], 'asked:' .. digest, ARGV[2] .. ' ' .. now_text)
  end
  redis.call('HSET', KEYS[2], 'whole', '1', 'feeds', text(#asked))
  redis.call('ZADD', KEYS[1], text(math.max(now, emitted + wait * 1000)), ARGV[1])
end
local whole, feeds, answered = numbers('whole', 'feeds', 'answered')
if is_current and whole == 1 and answered >= feeds then end_round(now) end
return 'noted'
