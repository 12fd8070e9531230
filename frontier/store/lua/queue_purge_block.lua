-- queue_purge_block: let a block have the URLs alone that are not excluded.
-- include: numbers
--
-- KEYS[1]  lease    hash {token, holder}
-- KEYS[2]  counts   hash {born, ready, ..., spilled, spilled_bytes, blocks, skipped}
-- KEYS[3]  queues   sorted set of the queues that have ready URLs
-- KEYS[4]  ready    the list; one '*' in it stands for all blocks
-- KEYS[5]  spilled  list of the blocks, the oldest first
-- ARGV[1]  born     of the crawl that the caller knows; '' if it has none
-- ARGV[2]  queue    its name
-- ARGV[3]  index    the place of the block in its list
-- ARGV[4]  sha1     of the block, in hex
-- ARGV[5]  block    what takes its place; '' if no URL is left
-- ARGV[6]  count    URLs that it had and that are not in the new one
--
-- Returns how many were taken out, which are counted as skipped and stay seen: 0 if the
-- block is not there any more. Or -1, and does nothing, if the partition is set aside, or
-- is another crawl's. Who puts the block back meanwhile finds that it has changed.

if redis.call('HGET', KEYS[1], 'token') == 'aside' then return -1 end
if (redis.call('HGET', KEYS[2], 'born') or '') ~= ARGV[1] then return -1 end
local block = redis.call('LINDEX', KEYS[5], ARGV[3])
if not block or redis.sha1hex(block) ~= ARGV[4] then return 0 end
local names = {'ready', 'spilled', 'spilled_bytes', 'blocks', 'skipped'}
local why = no_number(2, names, redis.call('HMGET', KEYS[2], unpack(names)))
if why then return redis.error_reply(why) end
local count = tonumber(ARGV[6])
redis.call('HINCRBY', KEYS[2], 'ready', -count)
redis.call('HINCRBY', KEYS[2], 'spilled', -count)
redis.call('HINCRBY', KEYS[2], 'spilled_bytes', #ARGV[5] - #block)
redis.call('HINCRBY', KEYS[2], 'skipped', count)
if ARGV[5] ~= '' then
  redis.call('LSET', KEYS[5], ARGV[3], ARGV[5])
  return count
end
redis.call('HINCRBY', KEYS[2], 'blocks', -1)
if redis.call('LLEN', KEYS[5]) == 1 then
  if redis.call('LLEN', KEYS[4]) == 1 then redis.call('ZREM', KEYS[3], ARGV[2]) end
  redis.call('LREM', KEYS[4], 1, '*')
end
redis.call('LSET', KEYS[5], ARGV[3], '-')
redis.call('LREM', KEYS[5], 1, '-')
return count
