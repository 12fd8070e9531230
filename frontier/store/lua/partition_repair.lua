-- partition_repair: count a partition, which nobody has, by what its lists have.
-- include: totals
--
-- KEYS[1]  lease     hash {token, holder}, of which the token stays
-- KEYS[2]  counts    hash {born, ready, pushed, seq, acked, dead, ...}
-- KEYS[3]  queues    sorted set of the queues that have ready URLs
-- KEYS[4]  reserved  hash: id to '<token>\n<queue>\n<item>'
-- KEYS[5]  dead      list of '<reason>\n<queue>\n<item>'
-- KEYS[6...]         its ready lists
-- ARGV[1]  born      of the crawl; '' if it has none
-- ARGV[2]  waiting   URLs that are not due yet
-- ARGV[3...]         for each list: its queue's name, and the score
--
-- Returns {ready, reserved, dead, lost}. Each of these keys has the right type, but for the
-- lease. What was pushed, acked and skipped is kept where it is a number, else it
-- follows from the rest; lost is 1 if it does not, and starts again at 0.

local last = redis.pcall('HGET', KEYS[1], 'token') -- nothing of another type
redis.call('DEL', KEYS[1])

local ready = 0
redis.call('DEL', KEYS[3])
for i = 6, #KEYS do
  local at, long = 3 + (i - 6) * 2, redis.call('LLEN', KEYS[i])
  ready = ready + long
  if long > 0 then redis.call('ZADD', KEYS[3], ARGV[at + 1], ARGV[at]) end
end

local old = redis.call('HMGET', KEYS[2], 'seq', 'pushed', 'acked', 'skipped', 'born')
local seq, token = number(old[1]) or 0, number(type(last) == 'string' and last) or 0
local entries = redis.call('HGETALL', KEYS[4])
for i = 1, #entries, 2 do
  seq = math.max(seq, number(entries[i]) or 0)
  token = math.max(token, number(string.match(entries[i + 1], '^%d+')) or 0)
end
local reserved, dead = #entries / 2, redis.call('LLEN', KEYS[5])
local open = ready + tonumber(ARGV[2]) + reserved + dead
local pushed, acked, skipped, lost = totals(open, unpack(old, 2, 5))

local facts = {ready = ready, seq = seq, pushed = pushed, acked = acked, dead = dead,
  skipped = skipped, waiting = ARGV[2]}
for name, value in pairs(facts) do
  if type(value) == 'number' then value = string.format('%.0f', value) end
  redis.call('HSET', KEYS[2], name, value)
end
if ARGV[1] ~= '' then redis.call('HSET', KEYS[2], 'born', ARGV[1]) end
redis.call('HSET', KEYS[1], 'token', string.format('%.0f', token))
return {ready, reserved, dead, lost and 1 or 0}
