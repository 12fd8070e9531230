-- fence: only the holder of the lease goes on; the script of any other ends with nil.
--
-- KEYS[1]  lease  hash {token, holder}
-- ARGV[1]  token  the token lease_acquire returned

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return nil
end
