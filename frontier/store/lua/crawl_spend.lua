-- crawl_spend: count what a node did, and end the crawl that reaches a limit.
-- include: clock allowance pause
--
-- KEYS[1]  meta        hash {state, limit, born, paused, ...}
-- KEYS[2]  spent       hash {pages, items, errors, bytes, active_ms, active_at}
-- KEYS[3]  allowances  hash: node id to '<process> <number> <held>'
-- KEYS[4]  nodes       hash: node id to '<beat, server ms> <weight> <busy>'
-- ARGV[1]  node     node id
-- ARGV[2]  process  name of the node's process
-- ARGV[3]  number   of this report; one that comes twice is counted once
-- ARGV[4]  held     requests that the node has begun, or may begin
-- ARGV[5]  wanted   how many more it could begin
-- ARGV[6]  ttl_ms   a longer silence of all nodes is no time of the crawl
-- ARGV[7]  reached  name of a limit that the node itself has found reached; or ''
-- ARGV[8]  span     limit of the time with a live node, in ms; 0 for none
-- ARGV[9]  born     of the crawl that the caller knows; '' if it has none
-- ARGV[10...]       for pages, items, errors, bytes: how many more, and the limit
--
-- Returns {state, limit, granted}: granted is how many more requests the node may
-- begin, so that all nodes together get no more pages than the limit.

local crawl = redis.call('HMGET', KEYS[1], 'state', 'limit', 'born', 'paused')
if not crawl[1] or (crawl[3] or '') ~= ARGV[9] then
  return {'', '', 0}
end
local process, number = string.match(redis.call('HGET', KEYS[3], ARGV[1]) or '', '^(%S+) (%d+)')
local is_new = process ~= ARGV[2] or tonumber(number) < tonumber(ARGV[3])
local reached, pages = ARGV[7], 0
local limits = {time = ARGV[8]}
for i, name in ipairs({'pages', 'items', 'errors', 'bytes'}) do
  local more, limit = is_new and ARGV[8 + 2 * i] or '0', tonumber(ARGV[9 + 2 * i])
  local total = redis.call('HINCRBY', KEYS[2], name, more)
  limits[name] = ARGV[9 + 2 * i]
  if name == 'pages' then pages = total end
  if reached == '' and limit > 0 and total >= limit then reached = name end
end
if ARGV[8] ~= '0' then
  local since = now - (tonumber(redis.call('HGET', KEYS[2], 'active_at') or now) or now)
  if since < 0 or since > tonumber(ARGV[6]) or is_paused(crawl[4]) then since = 0 end
  local active = redis.call('HINCRBY', KEYS[2], 'active_ms', since)
  redis.call('HSET', KEYS[2], 'active_at', now_text)
  if reached == '' and active >= tonumber(ARGV[8]) then reached = 'time' end
end
if reached ~= '' and crawl[1] == 'open' then
  crawl = {'limit', reached .. ' ' .. limits[reached]}
  redis.call('HSET', KEYS[1], 'state', crawl[1], 'limit', crawl[2],
    'finished_ms', now_text)
end

local granted = 0
if limits.pages ~= '0' and crawl[1] == 'open' then
  granted = allowance(tonumber(limits.pages) - pages, tonumber(ARGV[4]), tonumber(ARGV[5]))
end
forget_gone()
redis.call('HSET', KEYS[3], ARGV[1],
  table.concat({ARGV[2], ARGV[3], string.format('%.0f', ARGV[4] + granted)}, ' '))
return {crawl[1], crawl[2] or '', granted}
