-- seen_forget: take URLs out of the set, so that they are new again.
--
-- KEYS[1]  seen     hash {buckets, count, blooms, last, era}
-- KEYS[2...]        the bucket of each member
-- ARGV[1]  buckets  how many the set has, as the caller knows it
-- ARGV[2]  era      of the set, as well
-- ARGV[3...]        members
--
-- Returns {1, flags}: for each member 1 if it was in the set, else 0. Or
-- {0, buckets, era}, and nothing is done, if the set is not as the caller knows.

local stored = redis.call('HMGET', KEYS[1], 'buckets', 'era')
local buckets, era = stored[1] or '1', stored[2] or '0'
if buckets ~= ARGV[1] or era ~= ARGV[2] then
  return {0, tonumber(buckets), tonumber(era)}
end
-- First all that is read: a key that has vanished cannot be while slots move.
local flags, removed, gone, found = {}, 0, {}, {}
for i = 2, #KEYS do
  local member = ARGV[i + 1]
  local members = gone[KEYS[i]] or {}
  gone[KEYS[i]] = members
  local had = found[member] and 0 or redis.call('SISMEMBER', KEYS[i], member)
  flags[i - 1] = had
  removed = removed + had
  if had == 1 then
    found[member] = true
    members[#members + 1] = member
  end
end
for key, members in pairs(gone) do
  if #members > 0 then redis.call('SREM', key, unpack(members)) end
end
if removed > 0 then redis.call('HINCRBY', KEYS[1], 'count', -removed) end
return {1, flags}
