-- crawl_open: create a crawl, or learn what it was created with.
-- include: clock
--
-- KEYS[1]  meta   hash {state, created_ms, born, marked, job, ...}
-- ARGV[1]  shape  JSON of the settings that all nodes must share
-- ARGV[2]  spider name of the spider
-- ARGV[3]  born   what tells this crawl from others of its name, if it is created
-- ARGV[4]  schema the version of keys and values that the caller reads and writes
-- ARGV[5]  job    JSON of the caller's job; '' if it has none
--
-- Returns {state, shape, born, marked, schema, job, finished_ms, now, created} as they
-- are now: the caller compares. *marked* is nil until somebody has marked all partitions
-- (see lease_acquire). A crawl of another schema is not changed.

local job, made = ARGV[5] or '', 0
if redis.call('EXISTS', KEYS[1]) == 0 then
  made = 1
  redis.call('HSET', KEYS[1], 'state', 'open', 'shape', ARGV[1], 'spider', ARGV[2],
    'created_ms', now_text, 'born', ARGV[3], 'schema', ARGV[4])
end
local about = redis.call('HMGET', KEYS[1], 'schema', 'state')
if job ~= '' and about[1] == ARGV[4] and about[2] == 'open' then
  redis.call('HSETNX', KEYS[1], 'job', job) -- of one that a command has made, too
end
local found = redis.call('HMGET', KEYS[1], 'state', 'shape', 'born', 'marked', 'schema',
  'job', 'finished_ms')
found[8], found[9] = now_text, made
return found
