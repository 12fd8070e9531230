-- queue_unspill: put the URLs of the next block back into their ready list.
-- include: fence
--
-- KEYS[1]  lease    hash {token, holder}
-- KEYS[2]  counts   hash {ready, ..., spilled, spilled_bytes, blocks, shelved_bytes}
-- KEYS[3]  ready    the list; one '*' in it stands for all blocks
-- KEYS[4]  spilled  list of the blocks, the oldest first
-- KEYS[5]  dead     list of '<reason>\n<queue>\n<item>'
-- ARGV[1]  token    the token lease_acquire returned
-- ARGV[2]  pop      LPOP (the oldest block is next) or RPOP (the newest)
-- ARGV[3]  blocks   how many there were when the block was read
-- ARGV[4]  sha1     of the block, in hex
-- ARGV[5]  items    how many URLs the block stands for
-- ARGV[6]  unread   '<reason>\n<queue>\n' if the block cannot be read; or empty
-- ARGV[7]  shelved  bytes of the block's file, if it is in one; or 0
-- ARGV[8...]        the URLs, the last first
--
-- Returns 1, 0 if the block is not there any more, or nil if the token is not
-- the current one. A block that cannot be read becomes a dead letter.

local oldest = ARGV[2] == 'LPOP'
local blocks = redis.call('LLEN', KEYS[4])
if blocks == 0 or blocks ~= tonumber(ARGV[3]) then return 0 end -- the call came twice
local block = redis.call('LINDEX', KEYS[4], oldest and 0 or -1)
if redis.sha1hex(block) ~= ARGV[4] then return 0 end

-- First in front of everything, then what is to stay before them again, and the
-- mark last: the list is at no time empty.
local front = {}
if oldest then
  local mark = redis.call('LPOS', KEYS[3], '*') or 0
  if mark > 0 then front = redis.call('LPOP', KEYS[3], mark) end
end
if #ARGV > 7 then redis.call('LPUSH', KEYS[3], unpack(ARGV, 8)) end
for first = #front, 1, -1000 do -- in one command, as many as Lua's stack takes
  local some = {}
  for i = first, math.max(1, first - 999), -1 do some[#some + 1] = front[i] end
  redis.call('LPUSH', KEYS[3], unpack(some))
end
if blocks == 1 or (not oldest and #ARGV > 7) then
  redis.call('LREM', KEYS[3], 1, '*')
end
if blocks > 1 and not oldest and #ARGV > 7 then
  redis.call('LPUSH', KEYS[3], '*')
end

local many = tonumber(ARGV[5])
if ARGV[6] ~= '' then
  redis.call('RPUSH', KEYS[5], ARGV[6] .. block)
  redis.call('HINCRBY', KEYS[2], 'dead', 1)
  redis.call('HINCRBY', KEYS[2], 'ready', -many)
end
redis.call('HINCRBY', KEYS[2], 'blocks', -1)
redis.call('HINCRBY', KEYS[2], 'spilled', -many)
redis.call('HINCRBY', KEYS[2], 'spilled_bytes', -#block)
if ARGV[7] ~= '0' then
  redis.call('HINCRBY', KEYS[2], 'shelved_bytes', -tonumber(ARGV[7]))
end
redis.call(ARGV[2], KEYS[4])
return 1
