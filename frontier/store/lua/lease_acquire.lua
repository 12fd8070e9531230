-- lease_acquire: take a partition, if its lease is as the caller has seen it last.
-- include: clock numbers
--
-- KEYS[1]  lease     hash {token, holder}, which stays; no holder if nobody has it
-- KEYS[2]  counts    hash {born, ready, ...}
-- KEYS[3]  reserved  hash of reservations
-- KEYS[4]  hosts     hash: queue key to the record of a host
-- ARGV[1]  holder    name of the caller on the map of members
-- ARGV[2]  born      of the crawl; '' if it has none
-- ARGV[3]  former    the holder that the caller has seen; '' for nobody
-- ARGV[4]  token     the token that it has seen; 0 for none
-- ARGV[5]  more      what to add to the token, drawn by the caller; 0 if it was the former
--                    holder, under another name, and keeps it
--
-- Returns {1, holder, token, ready, reserved, waiting, now, hosts}, where hosts is {queue key,
-- record, queue key, record, ...}, or {} for who keeps its token. Or what there is, {0,
-- holder, token}, if that is something else: so a call that is late, or sent twice, takes
-- nothing. Or {-1}
-- if it is not marked as of that crawl: what was in it is lost, or is another crawl's. A
-- token or counts that cannot be are an error: a default would hand out a token twice, or
-- end a crawl that is not done.
-- The token is another one, unless it is kept, and at least the server's time, so that it
-- still grows after a fail-over that lost the last one. If the clock was set back as well,
-- no number that grows is left, but what is drawn makes it another one.

local NAMES = {'ready', 'pushed', 'seq', 'acked', 'dead', 'waiting'}

local lease = redis.call('HMGET', KEYS[1], 'token', 'holder')
local token, holder = lease[1] or '0', lease[2] or ''
if not string.find(token, '^%d+$') or #token > 15 then
  return redis.error_reply('BADKEY 1 it is not a token')
end
local born, ready, waiting = redis.call('HGET', KEYS[2], 'born') or '', '0', '0'
if born ~= ARGV[2] then
  if born ~= '' and not string.find(born, '^%w+$') then
    return redis.error_reply('BADKEY 2 its born is not the mark of a crawl')
  end
  return {-1}
end
if born == '' or redis.call('HLEN', KEYS[2]) > 1 then -- else nothing was ever pushed
  local counts = redis.call('HMGET', KEYS[2], unpack(NAMES))
  local why = no_number(2, NAMES, counts)
  if why then return redis.error_reply(why) end
  ready, waiting = counts[1] or '0', counts[6] or '0'
end
if token ~= ARGV[4] or holder ~= ARGV[3] then return {0, holder, token} end
-- What fails, fails before anything is written.
local reserved, hosts = redis.call('HLEN', KEYS[3]), {}
if ARGV[5] ~= '0' then
  hosts = redis.call('HGETALL', KEYS[4])
  token = string.format('%.0f', math.max(token + ARGV[5], now))
end
redis.call('HDEL', KEYS[1], 'holder') -- a script that begins so may write to a full server
redis.call('HSET', KEYS[1], 'token', token, 'holder', ARGV[1])
return {1, ARGV[1], token, ready, reserved, waiting, now_text, hosts}
