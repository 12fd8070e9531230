-- partition_hold: keep what cannot be queued in a partition that is set aside.
--
-- KEYS[1]  held   hash: name to the msgpack of a push
-- KEYS[2]  lease  hash {token, holder}
-- ARGV[1...]      for each push: its name, and the msgpack
--
-- Returns how many were not held before; or -1, and does nothing, if the partition is
-- not set aside any more: the caller pushes again. What is under the key and is no
-- hash is nobody's: nothing else is ever written there.

if redis.call('HGET', KEYS[2], 'token') ~= 'aside' then
  return -1
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('DEL', KEYS[1])
end
local new = 0
for i = 1, #ARGV, 2 do
  new = new + redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1])
end
return new
