-- cookies_merge: put cookies that a node was given, or lost, into a jar of the crawl.
--
-- KEYS[1]  jar      hash: JSON [domain, path, name] to '<expires, s> <JSON>'
-- KEYS[2]  cookies  sorted set: names of the jars, scored by their versions
-- KEYS[3]  meta     hash {state, born, ...} of the crawl
-- ARGV[1]  name     of the jar
-- ARGV[2]  born     of the crawl that the caller knows; '' if it has none
-- ARGV[3]  cap      cookies that the jar may have
-- ARGV[4]  jars     that the crawl may have
-- ARGV[5...]        for each cookie: its field, and its value; '' if it is gone
--
-- Returns {version, before, refused}: the version that the jar has now, and the one
-- that it had; they are equal if all was as it is. refused cookies had no room. Or
-- {-1, 0, 0}, and does nothing, if that crawl is not there any more; {0, 0, n} if it
-- has no room for one more jar. Cookies that have expired make room for others.
-- Versions only grow, and no two jars have the same.

local crawl = redis.call('HMGET', KEYS[3], 'state', 'born')
if not crawl[1] or (crawl[2] or '') ~= ARGV[2] then
  return {-1, 0, 0}
end
local cap, changed, refused, swept = tonumber(ARGV[3]), false, 0, false
local before = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)
if before == 0 and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then
  return {0, 0, (#ARGV - 4) / 2}
end

local function sweep()
  local now, all = tonumber(redis.call('TIME')[1]), redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local expires = tonumber(string.match(all[i + 1], '^(%d+) ') or 0)
    if expires > 0 and expires < now then redis.call('HDEL', KEYS[1], all[i]) end
  end
end

for i = 5, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local old = redis.call('HGET', KEYS[1], field)
  if value == '' then
    changed = redis.call('HDEL', KEYS[1], field) == 1 or changed
  elseif old ~= value then
    if not old and not swept and redis.call('HLEN', KEYS[1]) >= cap then
      swept = true
      sweep()
    end
    if old or redis.call('HLEN', KEYS[1]) < cap then
      redis.call('HSET', KEYS[1], field, value)
      changed = true
    else
      refused = refused + 1
    end
  end
end
if not changed then return {before, before, refused} end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local version = (tonumber(last) or 0) + 1
redis.call('ZADD', KEYS[2], string.format('%.0f', version), ARGV[1])
return {version, before, refused}
