-- queue_push: queue the URLs that were not seen, and mark them, in one step.
--
-- KEYS[1]  counts  hash {ready, pushed, seq, acked, dead}
-- KEYS[2]  queues  sorted set of the queues that have ready URLs
-- KEYS[3]  seen    hash {buckets, count, blooms, last}
-- KEYS[4...]       Bloom generations, then buckets of the set, then ready lists
-- ARGV[1]  plan    JSON {buckets, blooms, room, grow, bloom, splits, lists}:
--                  buckets  how many the set has, as the caller knows it
--                  blooms   how many generations there are, likewise
--                  room     URLs that the set may have after its splits, and
--                           the last generation, if it does not grow
--                  grow     true to begin the last generation of `bloom`
--                  bloom    {bits, hashes} of each declared generation
--                  splits   {from, to, threshold}: KEYS of buckets to split
--                           first, and the member from which on they move
--                  lists    {KEYS index, queue, priority} of each ready list
-- ARGV[2...]       for each URL: mode, h1, h2, member, bucket, list, item.
--                  mode is t (test and mark), m (queue and mark) or f (queue);
--                  h1 and h2 make its Bloom positions; bucket is an index in
--                  KEYS, or 0 where there is no set; list one in `lists`
--
-- Returns {1, buckets, count, blooms, last, verdicts, risen}: a letter per URL
-- (n new, p new though Bloom said seen, s seen, b seen as Bloom says, f queued
-- untested), and the `lists` that were empty before. Or {0, buckets, count,
-- blooms, last}, and nothing is done, if the caller's layout is not current.

local plan = cjson.decode(ARGV[1])
local stored = redis.call('HMGET', KEYS[3], 'buckets', 'count', 'blooms', 'last')
local buckets, count = tonumber(stored[1] or '1'), tonumber(stored[2] or '0')
local blooms, last = tonumber(stored[3] or '0'), tonumber(stored[4] or '0')
local adding = (#ARGV - 1) / 7
if buckets ~= plan.buckets or blooms ~= plan.blooms
  or count + adding > plan.room[1] or last + adding > plan.room[2] then
  return {0, buckets, count, blooms, last}
end

-- A bucket covers a range of members, and SMEMBERS of an intset is sorted: the
-- upper half moves. All members have 19 digits, so text compares as numbers do.
for _, split in ipairs(plan.splits) do
  local members = redis.call('SMEMBERS', KEYS[split[1]])
  local moved = {}
  for _, member in ipairs(members) do
    if member >= split[3] then moved[#moved + 1] = member end
  end
  if #moved > 0 then
    redis.call('SREM', KEYS[split[1]], unpack(moved))
    redis.call('SADD', KEYS[split[2]], unpack(moved))
  end
  buckets = buckets + 1
end
if plan.grow then
  blooms, last = blooms + 1, 0
  -- The highest bit first, so that the bitmap is allocated once and exactly.
  redis.call('SETBIT', KEYS[3 + blooms], plan.bloom[blooms][1] - 1, 0)
end

local function bloom_has(generation, h1, h2)
  local bits, hashes = plan.bloom[generation][1], plan.bloom[generation][2]
  for i = 0, hashes - 1 do
    if redis.call('GETBIT', KEYS[3 + generation], (h1 + i * h2) % bits) == 0 then
      return false
    end
  end
  return true
end

local function bloom_add(h1, h2)
  local bits, hashes = plan.bloom[blooms][1], plan.bloom[blooms][2]
  local had = 1
  for i = 0, hashes - 1 do
    had = math.min(had, redis.call('SETBIT', KEYS[3 + blooms], (h1 + i * h2) % bits, 1))
  end
  return had == 1
end

local function mark(h1, h2, member, bucket)
  local maybe = blooms > 0
  if maybe then
    local older = false
    for generation = 1, blooms - 1 do
      older = older or bloom_has(generation, h1, h2)
    end
    maybe = older or bloom_add(h1, h2)
    if not maybe then last = last + 1 end
  end
  if bucket > 0 then
    local added = redis.call('SADD', KEYS[bucket], member)
    count = count + added
    return added == 0 and 's' or (maybe and 'p' or 'n')
  end
  if blooms == 0 then return 'n' end
  return maybe and 'b' or 'n'
end

local verdicts, waiting, queued = {}, {}, 0
for i = 2, #ARGV, 7 do
  local mode, verdict = ARGV[i], 'f'
  if mode ~= 'f' then
    verdict = mark(tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3],
      tonumber(ARGV[i + 4]))
    if mode == 'm' then verdict = 'f' end
  end
  verdicts[#verdicts + 1] = verdict
  if verdict ~= 's' and verdict ~= 'b' then
    local list = tonumber(ARGV[i + 5])
    waiting[list] = waiting[list] or {}
    table.insert(waiting[list], ARGV[i + 6])
    queued = queued + 1
  end
end

local risen = {}
for list, items in pairs(waiting) do
  local key, queue, priority = unpack(plan.lists[list])
  if redis.call('RPUSH', KEYS[key], unpack(items)) == #items then
    redis.call('ZADD', KEYS[2], -priority, queue)
    risen[#risen + 1] = list
  end
end
if queued > 0 then
  redis.call('HINCRBY', KEYS[1], 'ready', queued)
  redis.call('HINCRBY', KEYS[1], 'pushed', queued)
end
redis.call('HSET', KEYS[3], 'buckets', buckets, 'count', count, 'blooms', blooms, 'last', last)
return {1, buckets, count, blooms, last, table.concat(verdicts), risen}
