-- node_hint: tell a node what became ready in the partitions that it holds.
--
-- KEYS[1]  hints    list of '<partition> <queue>'
-- KEYS[2]  meta     hash {state, ...} of the crawl
-- ARGV[1]  kept_ms  for how long the list is kept that nobody reads
-- ARGV[2...]        lines
--
-- Returns nothing. Of a crawl that is not there nothing is told.

if redis.call('EXISTS', KEYS[2]) == 0 then
  return
end
redis.call('RPUSH', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
