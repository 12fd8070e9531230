-- queue_spill: put some cold URLs of a ready list into one compressed block.
-- include: fence
--
-- KEYS[1]  lease    hash {token, holder}
-- KEYS[2]  counts   hash {ready, pushed, seq, ..., spilled, spilled_bytes, blocks}
-- KEYS[3]  ready    the list; one '*' in it stands for all blocks
-- KEYS[4]  spilled  list of the blocks, the oldest first
-- ARGV[1]  token    the token lease_acquire returned
-- ARGV[2]  blocks   how many there were when the URLs were read
-- ARGV[3]  first    the first of the URLs
-- ARGV[4]  items    how many they are
-- ARGV[5]  sha1     of all of them, one after the other, in hex
-- ARGV[6]  block    what takes their place
--
-- Returns 1, 0 if the list is not what was read, or nil if the token is not the
-- current one. The URLs are those behind the mark; without one, those that begin
-- with the first. Others are behind them: a list that has been emptied could not
-- be filled again while slots move.

if redis.call('LLEN', KEYS[4]) ~= tonumber(ARGV[2]) then
  return 0 -- the call came twice
end
local many = tonumber(ARGV[4])
local mark = redis.call('LPOS', KEYS[3], '*', 'MAXLEN', 4000)
if not mark and ARGV[2] ~= '0' then
  return 0 -- it is further back than was looked
end
local at = mark and mark + 1 or redis.call('LPOS', KEYS[3], ARGV[3], 'MAXLEN', 4000)
if not at or redis.call('LLEN', KEYS[3]) <= at + many then
  return 0
end
local items = redis.call('LRANGE', KEYS[3], at, at + many - 1)
if redis.sha1hex(table.concat(items)) ~= ARGV[5] then
  return 0
end

local kept = {'*'}
if at > 0 then
  local front = redis.call('LRANGE', KEYS[3], 0, at - 1)
  for i = mark or at, 1, -1 do
    kept[#kept + 1] = front[i]
  end
end
redis.call('LTRIM', KEYS[3], at + many, -1)
redis.call('LPUSH', KEYS[3], unpack(kept))
redis.call('RPUSH', KEYS[4], ARGV[6])
redis.call('HINCRBY', KEYS[2], 'blocks', 1)
redis.call('HINCRBY', KEYS[2], 'spilled', many)
redis.call('HINCRBY', KEYS[2], 'spilled_bytes', #ARGV[6])
return 1
