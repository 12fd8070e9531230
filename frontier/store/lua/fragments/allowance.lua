-- allowance: how many requests a node may begin, where the pages of a crawl are limited.
--
-- KEYS[3]  allowances  hash: node id to '<process> <number> <held>'
-- KEYS[4]  nodes       hash: node id to '<beat, server ms> <weight> <busy>'
-- ARGV[1]  node        node id of the caller
--
-- allowance(left, held, wanted) is a share of the pages that are left: of those that
-- neither the caller holds nor another node on the map.
-- forget_gone() removes the entries of nodes that are not there, once they are many.

local function allowance(left, held, wanted)
  local room, share = left - held, math.max(1, redis.call('HLEN', KEYS[4]))
  local others = redis.call('HGETALL', KEYS[3])
  for i = 1, #others, 2 do
    if others[i] ~= ARGV[1] and redis.call('HEXISTS', KEYS[4], others[i]) == 1 then
      room = room - (tonumber(string.match(others[i + 1], '(%d+)$') or '') or 0)
    end
  end
  return math.max(0, math.min(wanted, room, math.ceil(room / share)))
end

local function forget_gone()
  if redis.call('HLEN', KEYS[3]) < redis.call('HLEN', KEYS[4]) + 100 then return end
  for _, node in ipairs(redis.call('HKEYS', KEYS[3])) do
    if redis.call('HEXISTS', KEYS[4], node) == 0 then redis.call('HDEL', KEYS[3], node) end
  end
end
