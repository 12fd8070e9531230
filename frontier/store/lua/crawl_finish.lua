-- crawl_finish: end a crawl that has nothing left to do.
-- include: clock pause
--
-- KEYS[1]  meta   hash {state, born, paused, swept_ms, resumed_ms, ...}
-- KEYS[2]  nodes  hash: node id to '<beat, server ms> <weight> <busy> <process> <number> <ttl>'
-- KEYS[3]  seeding sorted set of seed lists that are loaded, by until when it stays open
-- ARGV[1]  ttl_ms a node without a ttl of its own that was silent for longer is dead
-- ARGV[2]  born   of the crawl that the caller knows; '' if it has none
--
-- Returns 1 if this call ended it, 2 if it had ended so before, 3 if it has ended
-- otherwise, which the heartbeat tells. Or 0 if a live node is busy: it loads seeds or
-- holds requests that are not in the store, or a command puts seeds in, or that
-- cannot be known; or if an operator has paused the crawl. Or -1 if the crawl is not
-- there any more, or is another of its name.

local state, born, swept, resumed, paused = unpack(
  redis.call('HMGET', KEYS[1], 'state', 'born', 'swept_ms', 'resumed_ms', 'paused'))
if not state or (born or '') ~= ARGV[2] then
  return -1
end
if state ~= 'open' then
  return state == 'finished' and 2 or 3
end
if is_paused(paused) then return 0 end
local ttl = tonumber(ARGV[1])
swept = tonumber(swept or '')
if swept and math.abs(now - swept) > ttl / 2 then
  return 0 -- the clock was set, or nodes could not beat: who lives is not known
end
for _, value in ipairs(redis.call('HVALS', KEYS[2])) do
  local beat, busy, own = string.match(value, '^(%d+) %d+ (%d) ?%w* ?%d* ?(%d*)')
  local heard = math.max(tonumber(beat or '0'), tonumber(resumed or '') or 0)
  if busy == '1' and heard >= now - (tonumber(own) or ttl) then
    return 0
  end
end
if redis.call('ZCOUNT', KEYS[3], now_text, '+inf') > 0 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'finished', 'finished_ms', now_text)
return 1
