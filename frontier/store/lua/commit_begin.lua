-- commit_begin: begin to commit what a crawl has stored so far, or go on with it.
-- include: clock numbers
--
-- KEYS[1]  rounds      hash {open, committed, at_ms} of the crawl
-- KEYS[2]  committer   string: the random name of who commits a round; expires
-- KEYS[3]  uncommitted set of the crawls, and rounds, that are not committed
-- KEYS[4]  canceled    set of the crawls that are not to be committed
-- KEYS[5]  part        hash: the digests of the round that the caller knows to be open
-- KEYS[6]  counts      hash: its counts
-- KEYS[7]  first       hash: the digests of round 1
-- KEYS[8]  counts_1    hash: the counts of round 1
-- KEYS[9]  committed   set of the crawls that are
-- KEYS[10]  waczs      list of JSON: the crawl's WACZ files
-- KEYS[11]  done       set of the names of the WACZ files in the index
-- ARGV[1]  crawl       its id
-- ARGV[2]  open        the number of the round that is open; '' if there is none
-- ARGV[3]  token       the caller's, by which it is the committer
-- ARGV[4]  ttl_ms      for how long, if nothing is heard of it
-- ARGV[5]  every_ms    the time between two rounds
-- ARGV[6]  last        '1' if the crawl adds no more
--
-- Returns {'move', number} if the caller is to move that round; else one of {'early'},
-- {'nothing'} to commit, {'ended'} if the crawl adds no more and is committed now, {'held'}
-- by another, {'canceled'}, {'whole'} if all of it is committed, {'other', open} round.

local rounds = redis.call('HMGET', KEYS[1], 'open', 'committed', 'at_ms')
local why = no_number(1, {'open', 'committed', 'at_ms'}, rounds)
if why then return redis.error_reply(why) end
local open, done, at = rounds[1], tonumber(rounds[2] or '0'), tonumber(rounds[3] or '0')
if (open or '') ~= ARGV[2] then return {'other', open or ''} end
if redis.call('SISMEMBER', KEYS[4], ARGV[1]) == 1 then return {'canceled'} end
if not open and redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 0 then return {'whole'} end
local holder, number = redis.call('GET', KEYS[2]), tonumber(open or '1')
if holder and holder ~= ARGV[3] and redis.call('PTTL', KEYS[2]) > 0 then return {'held'} end
if number > done + 1 then number = number - 1 -- its committer died
else
  if math.abs(now - at) < tonumber(ARGV[5]) then return {'early'} end
  if redis.call('EXISTS', KEYS[5], KEYS[6]) == 0 then
    if ARGV[6] ~= '1' then return {'nothing'} end
    for _, text in ipairs(redis.call('LRANGE', KEYS[10], 0, -1)) do
      local ok, wacz = pcall(cjson.decode, text)
      local name = ok and type(wacz) == 'table' and wacz.filename
      if type(name) == 'string' then redis.call('SADD', KEYS[11], name) end
    end
    redis.call('SREM', KEYS[3], open and ARGV[1] .. '~' .. open or ARGV[1])
    redis.call('SADD', KEYS[9], ARGV[1])
    redis.call('HDEL', KEYS[1], 'open')
    redis.call('HSET', KEYS[1], 'committed', open or '1')
    return {'ended'}
  end
  if not open then
    if redis.call('EXISTS', KEYS[5]) == 1 then redis.call('RENAME', KEYS[5], KEYS[7]) end
    if redis.call('EXISTS', KEYS[6]) == 1 then redis.call('RENAME', KEYS[6], KEYS[8]) end
    redis.call('SREM', KEYS[3], ARGV[1])
  end
  local next_one = redis.call('HINCRBY', KEYS[1], 'open', open and 1 or 2)
  redis.call('SADD', KEYS[3], ARGV[1] .. '~' .. number, ARGV[1] .. '~' .. next_one)
end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
return {'move', number}
