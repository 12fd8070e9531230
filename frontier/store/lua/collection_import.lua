-- collection_import: begin to import a source, and put some of its captures into the index.
--
-- KEYS[1]  alldupes  hash: payload digest to the crawl that has its original
-- KEYS[2]  crawl     hash: payload digest to its value
-- KEYS[3]  importing hash: name of a source to its WACZ index
-- KEYS[4]  done      set of the names of the sources in the index
-- KEYS[5]  waczs     list of JSON: the crawl's WACZ files
-- ARGV[1]  crawl     its id
-- ARGV[2]  name      of the source
-- ARGV[3]  entry     JSON: what stands for it in the list, until it is done
-- ARGV[4]  appended  '1' to append that entry when it begins, '0' to have index 0 for all
-- ARGV[5]  free      bytes of a redundant record that are not counted
-- ARGV[6...]         digest, value behind the WACZ index, and size of each capture
--
-- Returns {redundant, wasted}: how many of them have a payload that was there before,
-- and the bytes of these; or nil, and does nothing, if the source is in the index. A
-- repetition changes nothing, and returns the same: what it has put there itself is no
-- repeat of a payload.

if redis.call('SISMEMBER', KEYS[4], ARGV[2]) == 1 then
  return false
end
local at = redis.call('HGET', KEYS[3], ARGV[2])
if not at then
  at = ARGV[4] == '1' and redis.call('RPUSH', KEYS[5], ARGV[3]) - 1 or 0
  at = string.format('%d', at)
  redis.call('HSET', KEYS[3], ARGV[2], at)
end
local free, redundant, wasted = tonumber(ARGV[5]), 0, 0
for i = 6, #ARGV, 3 do
  local value, size = at .. ' ' .. ARGV[i + 1], tonumber(ARGV[i + 2])
  local is_new = redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[1]) == 1
  redis.call('HSETNX', KEYS[2], ARGV[i], value)
  if not is_new and size > free and (redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[1]
      or redis.call('HGET', KEYS[2], ARGV[i]) ~= value) then
    redundant = redundant + 1
    wasted = wasted + size - free
  end
end
return {redundant, string.format('%.0f', wasted)}
