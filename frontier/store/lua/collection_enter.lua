-- collection_enter: have a crawl add to the index, and commit in rounds if it is to.
-- include: clock numbers
--
-- KEYS[1]  rounds      hash {open, committed, at_ms} of the crawl; none if it has no rounds
-- KEYS[2]  uncommitted set of the crawls, and rounds, that are not committed
-- ARGV[1]  crawl       its id
-- ARGV[2]  rounds      '1' if the time until its first round begins now, else '0'
--
-- Returns the number of the round that its nodes add to; '' if they add to the crawl
-- itself. Where all rounds of the crawl were committed, the next one is opened.

local rounds = redis.call('HMGET', KEYS[1], 'open', 'committed', 'at_ms')
local why = no_number(1, {'open', 'committed'}, rounds)
if why then
  return redis.error_reply(why)
end
if ARGV[2] == '1' then
  redis.call('HSETNX', KEYS[1], 'at_ms', now_text)
end
local open = rounds[1]
if open then
  return open
end
if not rounds[2] then
  redis.call('SADD', KEYS[2], ARGV[1])
  return ''
end
open = string.format('%.0f', tonumber(rounds[2]) + 1)
redis.call('HSET', KEYS[1], 'open', open)
redis.call('SADD', KEYS[2], ARGV[1] .. '~' .. open)
return open
