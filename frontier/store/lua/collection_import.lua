-- collection_import: put some captures of a source into the index.
--
-- KEYS[1]  alldupes  hash: payload digest to the crawl that has its original
-- KEYS[2]  crawl     hash: payload digest to its value
-- KEYS[3]  importing hash: name of a source to its WACZ index
-- ARGV[1]  crawl     its id
-- ARGV[2]  name      of the source
-- ARGV[3]  free      bytes of a redundant record that are not counted
-- ARGV[4...]         digest, value and size of each capture
--
-- Returns {redundant, wasted}: how many of them have a payload that was there before,
-- and the bytes of these; or {}, and does nothing, if the source is not imported now. A
-- repetition changes nothing, and returns the same: what it has put there itself is no
-- repeat of a payload.

if redis.call('HEXISTS', KEYS[3], ARGV[2]) == 0 then
  return {}
end
local free, redundant, wasted = tonumber(ARGV[3]), 0, 0
for i = 4, #ARGV, 3 do
  local is_new = redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[1]) == 1
  redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1])
  local size = tonumber(ARGV[i + 2])
  if not is_new and size > free and (redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[1]
      or redis.call('HGET', KEYS[2], ARGV[i]) ~= ARGV[i + 1]) then
    redundant = redundant + 1
    wasted = wasted + size - free
  end
end
return {redundant, string.format('%.0f', wasted)}
