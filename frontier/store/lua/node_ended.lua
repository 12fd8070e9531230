-- node_ended: note which request's callback ran when a process ended, or hung.
--
-- KEYS[1]  ended    hash: '<node id>/<process>' to '<partition> <token> <id>'
-- KEYS[2]  meta     hash of the crawl
-- ARGV[1]  process  '<node id>/<process>'
-- ARGV[2]  ran      '<partition> <token> <id>' of the request's reservation
-- ARGV[3]  keep_s   for how many seconds notes are kept
--
-- Returns nothing. Of a crawl that is not there nothing is noted. A process has one note:
-- one that was given up, came back in time, and ended in something else.

if redis.call('EXISTS', KEYS[2]) == 0 then
  return
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
