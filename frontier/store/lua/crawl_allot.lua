-- crawl_allot: name the newest crawl of a spider's job, or the next one.
--
-- KEYS[1]  spider  hash {serial, open, free, crawl:<job>}
-- ARGV[1]  name    the spider's name; '' to make no crawl
-- ARGV[2]  job     id of the job; '' for a command, which takes what was opened last
-- ARGV[3]  ended   a crawl of this job that the caller knows to have ended
--
-- Returns the id of the crawl; nil if there is none, and none is to be made. A crawl
-- that a command has made belongs to the first job that comes.

local job, ended = ARGV[2] or '', ARGV[3] or ''
local own = job == '' and 'open' or 'crawl:' .. job
local known = redis.call('HGET', KEYS[1], own)
if known and known ~= ended then
  return known
end
local free = job ~= '' and redis.call('HGET', KEYS[1], 'free')
if free and free ~= ended then
  redis.call('HDEL', KEYS[1], 'free')
  redis.call('HSET', KEYS[1], own, free)
  return free
end
if ARGV[1] == '' then
  return false
end
local made = ARGV[1] .. '-' .. redis.call('HINCRBY', KEYS[1], 'serial', 1)
redis.call('HSET', KEYS[1], 'open', made, job == '' and 'free' or own, made)
return made
