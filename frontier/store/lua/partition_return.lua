-- partition_return: let nodes take a partition again that was set aside.
--
-- KEYS[1]  lease  hash {token, holder}
-- KEYS[2]  held   hash of pushes, see partition_hold
--
-- Returns 1, 0 if something is still held, or nil if it was not set aside.

if redis.call('HGET', KEYS[1], 'token') ~= 'aside' then
  return nil
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
