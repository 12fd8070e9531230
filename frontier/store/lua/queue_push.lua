-- queue_push: queue the URLs that were not seen, and mark them, in one step.
--
-- KEYS[1]  counts  hash {ready, pushed, seq, acked, dead}
-- KEYS[2]  queues  sorted set of the queues that have ready URLs
-- KEYS[3]  seen    hash {buckets, count, blooms, last}
-- KEYS[4...]       Bloom generations, then buckets of the set and ready lists
-- ARGV[1]  plan    msgpack [buckets, blooms, made, splits, lists, urls, room]:
--                  buckets  how many the set has, as the caller knows it
--                  blooms   how many generations there are, likewise
--                  made     {bits, hashes} of each declared generation; one
--                           more than there are begins another
--                  splits   {from, to, threshold}: KEYS of buckets to split
--                           first, and the member from which on they move
--                  lists    {KEYS index, queue, score} of each ready list
--                  urls     for each URL: mode, h1, h2, member, bucket, list,
--                           item. mode is t (test and mark), m (queue and mark)
--                           or f (queue); h1 and h2 make its Bloom positions;
--                           bucket is an index in KEYS, or 0 without a set;
--                           list one in `lists`, or 0 to mark and not queue
--                  room     URLs that the set may have after its splits, and
--                           the last generation, if it is not a new one
--
-- Returns {1, buckets, count, blooms, last, verdicts, risen}: a letter per URL
-- (n new, s seen, b seen as Bloom says, f queued untested), and the `lists` that
-- were empty before. Or {0, buckets, count, blooms, last}, and nothing is done,
-- if the caller's layout is not the current one or leaves too little room.
-- Where there is a set it answers, and Bloom is only written: the set is exact
-- and ten times as quick to ask.

local plan = cmsgpack.unpack(ARGV[1])
local made, splits, lists, urls = plan[3], plan[4], plan[5], plan[6]
local stored = redis.call('HMGET', KEYS[3], 'buckets', 'count', 'blooms', 'last')
local buckets, count = tonumber(stored[1] or '1'), tonumber(stored[2] or '0')
local blooms, last = tonumber(stored[3] or '0'), tonumber(stored[4] or '0')
local adding, room = #urls / 7, plan[7]
if buckets ~= plan[1] or blooms ~= plan[2]
  or count + adding > room[1] or last + adding > room[2] then
  return {0, buckets, count, blooms, last}
end

-- A bucket covers a range of members, and SMEMBERS of an intset is sorted: the
-- upper half moves. All members have 19 digits, so text compares as numbers do.
for _, split in ipairs(splits) do
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
if #made > blooms then
  blooms, last = blooms + 1, 0
  -- The highest bit first, so that the bitmap is allocated once and exactly.
  redis.call('SETBIT', KEYS[3 + blooms], made[blooms][1] - 1, 0)
end
local bits, hashes = unpack(made[blooms] or {1, 0})

local function older_has(h1, h2)
  for generation = 1, blooms - 1 do
    local size, found = made[generation][1], true
    for i = 0, made[generation][2] - 1 do
      if redis.call('GETBIT', KEYS[3 + generation], (h1 + i * h2) % size) == 0 then
        found = false
        break
      end
    end
    if found then return true end
  end
  return false
end

local function bloom_add(h1, h2)
  local had = true
  for i = 0, hashes - 1 do
    if redis.call('SETBIT', KEYS[3 + blooms], (h1 + i * h2) % bits, 1) == 0 then had = false end
  end
  return had
end

-- Bits to set where the set has answered: many positions per call.
local ops = {}
local function bloom_note(h1, h2)
  for i = 0, hashes - 1 do
    local n = #ops
    ops[n + 1], ops[n + 2], ops[n + 3], ops[n + 4] = 'SET', 'u1', (h1 + i * h2) % bits, 1
  end
  if #ops > 4000 then
    redis.call('BITFIELD', KEYS[3 + blooms], unpack(ops))
    ops = {}
  end
end

local verdicts, waiting, queued = {}, {}, 0
for i = 1, #urls, 7 do
  local verdict = 'f'
  if urls[i] ~= 'f' then
    local h1, h2, bucket = urls[i + 1], urls[i + 2], urls[i + 4]
    verdict = 'n'
    if bucket > 0 then
      if redis.call('SADD', KEYS[bucket], urls[i + 3]) == 0 then
        verdict = 's'
      else
        count = count + 1
        if blooms > 0 then
          last = last + 1
          bloom_note(h1, h2)
        end
      end
    elseif blooms > 0 then
      if older_has(h1, h2) or bloom_add(h1, h2) then
        verdict = 'b'
      else
        last = last + 1
      end
    end
    if urls[i] == 'm' then verdict = 'f' end
  end
  verdicts[#verdicts + 1] = verdict
  if urls[i + 5] > 0 and (verdict == 'n' or verdict == 'f') then
    local list = waiting[urls[i + 5]]
    if not list then
      list = {}
      waiting[urls[i + 5]] = list
    end
    list[#list + 1] = urls[i + 6]
    queued = queued + 1
  end
end
if #ops > 0 then redis.call('BITFIELD', KEYS[3 + blooms], unpack(ops)) end

local risen = {}
for list, items in pairs(waiting) do
  local key, queue, score = unpack(lists[list])
  if redis.call('RPUSH', KEYS[key], unpack(items)) == #items then
    redis.call('ZADD', KEYS[2], score, queue)
    risen[#risen + 1] = list
  end
end
if queued > 0 then
  redis.call('HINCRBY', KEYS[1], 'ready', queued)
  redis.call('HINCRBY', KEYS[1], 'pushed', queued)
end
redis.call('HSET', KEYS[3], 'buckets', buckets, 'count', count, 'blooms', blooms, 'last', last)
return {1, buckets, count, blooms, last, table.concat(verdicts), risen}
