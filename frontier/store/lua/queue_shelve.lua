-- queue_shelve: let a block that is in a file have its address in its place.
-- include: fence
--
-- KEYS[1]  lease    hash {token, holder}
-- KEYS[2]  counts   hash {..., spilled, spilled_bytes, blocks, shelved_bytes}
-- KEYS[3]  spilled  list of the blocks, the oldest first
-- ARGV[1]  token    the token lease_acquire returned
-- ARGV[2]  index    the place of the block in its list
-- ARGV[3]  sha1     of the block, in hex
-- ARGV[4]  address  what takes its place
--
-- Returns 1, 0 if the block is not there any more, or nil if the token is not
-- the current one.

local block = redis.call('LINDEX', KEYS[3], ARGV[2])
if not block or redis.sha1hex(block) ~= ARGV[3] then
  return 0
end
redis.call('LSET', KEYS[3], ARGV[2], ARGV[4])
redis.call('HINCRBY', KEYS[2], 'spilled_bytes', #ARGV[4] - #block)
redis.call('HINCRBY', KEYS[2], 'shelved_bytes', #block)
return 1
