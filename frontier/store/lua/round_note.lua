-- round_note: note what became of URLs of a round, and end it once none is in progress.
-- include: clock rounds
--
-- KEYS[1]  sites   sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site    hash {state, want, round, emitted, wait, ...} of one site
-- KEYS[3]  round   hash: id of a URL in progress to '<a|q><partition>:<feed> <url>'
-- KEYS[4]  had     set of ids of URLs that this round is done with
-- KEYS[5]  rounds  list of the site's last rounds, the newest first
-- ARGV[1]  name    of the site
-- ARGV[2]  round   the number of the round
-- ARGV[3]  feeds   how many feeds it has, once all of them are queued; else ''
-- ARGV[4]  facts   msgpack [queued, seen, lost, done, feeds]: ids of URLs that are queued,
--                  that turned out to be seen, that nobody has, that are done with; and
--                  [id, items, field, value, ...] of each feed
--
-- Returns 1 if that ended the round, 0 if not, -1 if it was over before. May be sent twice.

local left, last = redis.call('HLEN', KEYS[3]), nil

local function end_one(id) -- the last one at the end: a key may not vanish as slots move
  if id == last or redis.call('HEXISTS', KEYS[3], id) == 0 then return 0 end
  left = left - 1
  if left == 0 then last = id else redis.call('HDEL', KEYS[3], id) end
  return 1
end

local state, round = unpack(redis.call('HMGET', KEYS[2], 'state', 'round'))
local is_current = state == 'crawling' and round == ARGV[2]
local queued, seen, lost, done, feeds = unpack(cmsgpack.unpack(ARGV[4]))
for _, feed in ipairs(feeds) do
  if round == ARGV[2] then redis.call('HSET', KEYS[2], unpack(feed, 3)) end
  if is_current and redis.call('HEXISTS', KEYS[3], feed[1]) == 1 then
    add('found', feed[2])
    add('items', feed[2])
  end
end
if not is_current then return -1 end
for _, id in ipairs(queued) do
  local value = redis.call('HGET', KEYS[3], id)
  if value then redis.call('HSET', KEYS[3], id, 'q' .. value:sub(2)) end
end
for _, id in ipairs(seen) do
  local value = redis.call('HGET', KEYS[3], id)
  if value and value:sub(1, 1) == 'a' then end_one(id) end
end
local gone = 0
for _, id in ipairs(lost) do gone = gone + end_one(id) end
if gone > 0 then add('lost', gone) end
for _, id in ipairs(done) do
  if end_one(id) == 1 then redis.call('SADD', KEYS[4], id) end
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[2], 'whole', '1', 'feeds', ARGV[3]) end
if redis.call('HGET', KEYS[2], 'whole') ~= '1' or left > 0 then
  if last then redis.call('HDEL', KEYS[3], last) end
  return 0
end
end_round(now, 0)
return 1
