-- collection_begin: begin to import a source, or go on with it.
--
-- KEYS[1]  importing hash: name of a source to its WACZ index
-- KEYS[2]  done      set of the names of the sources in the index
-- KEYS[3]  waczs     list of JSON: the crawl's WACZ files
-- ARGV[1]  name      of the source
-- ARGV[2]  entry     JSON: what stands for it in the list, until it is done
-- ARGV[3]  appended  '1' to append that entry now, '0' to have index 0 for all
--
-- Returns its WACZ index, or nil if the source is in the index.

if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then
  return false
end
local at = redis.call('HGET', KEYS[1], ARGV[1])
if at then
  return at
end
local index = 0
if ARGV[3] == '1' then
  index = redis.call('RPUSH', KEYS[3], ARGV[2]) - 1
end
at = string.format('%d', index)
redis.call('HSET', KEYS[1], ARGV[1], at)
return at
