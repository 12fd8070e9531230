-- queue_push: queue the URLs that were not seen, and mark them, in one step.
--
-- KEYS[1]  counts  hash {ready, pushed, seq, acked, dead}
-- KEYS[2]  queues  sorted set of the queues that have ready URLs
-- KEYS[3]  seen    hash {buckets, count, blooms, last, era}
-- KEYS[4...]       Bloom generations, then buckets of the set and ready lists
-- ARGV[1]  plan    msgpack [layout, base, room, made, splits, lists, modes,
--                  marks, members, places, targets, items]:
--                  layout   {buckets, blooms, era}, as the caller knows it
--                  base     how many buckets a new set has
--                  room     URLs that the set may have after its splits, and
--                           the last generation, if it is not a new one
--                  made     {bits, hashes} of each declared generation; one
--                           more than there are begins another. A native
--                           filter is the only one: {0, capacity, error};
--                           none, and Bloom is neither asked nor written
--                  splits   {from, to, threshold}: KEYS of buckets to split
--                           first, and the member from which on they move
--                  lists    {KEYS index, queue, score} of each ready list
--                  modes    a letter per URL: t (test and mark), m (queue and
--                           mark) or f (queue)
--                  marks    of each URL, for Bloom; empty without that tier
--                  members  of each URL, for the set; empty if as the marks
--                  places   the KEYS index of each URL's bucket; empty
--                           without a set
--                  targets  the place in `lists` of each URL's queue, or 0 to
--                           mark and not queue; empty if that holds for all
--                  items    of each URL, as targets
--
-- Returns {1, buckets, count, blooms, last, era, verdicts, risen}: a letter per
-- URL (n new, s seen, b seen as Bloom says, f queued untested), and the `lists`
-- that were empty before. Or {0, buckets, count, blooms, last, era}, and nothing
-- is done, if the caller's layout is not the current one or leaves too little
-- room.
-- Where there is a set it answers, and Bloom is only written: the set is exact
-- and ten times as quick to ask. Once a set was given up (era > 0), Bloom is
-- asked about what the present one does not have.

local layout, base, room, made, splits, lists, modes, marks, members, places,
  targets, items = unpack(cmsgpack.unpack(ARGV[1]))
local stored = redis.call('HMGET', KEYS[3], 'buckets', 'count', 'blooms', 'last', 'era')
local buckets, count = tonumber(stored[1] or base), tonumber(stored[2] or '0')
local blooms, last = tonumber(stored[3] or '0'), tonumber(stored[4] or '0')
local era, urls = tonumber(stored[5] or '0'), #modes
if buckets ~= layout[1] or blooms ~= layout[2] or era ~= layout[3]
  or count + urls > room[1] or last + urls > room[2] then
  return {0, buckets, count, blooms, last, era}
end
local had_count, had_last, had_blooms, had_buckets = count, last, blooms, buckets
if #members == 0 then members = marks end

-- A bucket covers a range of members, and SMEMBERS of an intset is sorted: the
-- upper half moves. All members have as many digits, so text compares as they do.
for _, split in ipairs(splits) do
  local moved = {}
  for _, member in ipairs(redis.call('SMEMBERS', KEYS[split[1]])) do
    if member >= split[3] then moved[#moved + 1] = member end
  end
  if #moved > 0 then
    redis.call('SREM', KEYS[split[1]], unpack(moved))
    redis.call('SADD', KEYS[split[2]], unpack(moved))
  end
  buckets = buckets + 1
end

local has_bloom, native = #made > 0, made[1] and made[1][1] == 0
if #made > blooms then
  blooms, last = blooms + 1, 0
  if native then
    redis.call('BF.RESERVE', KEYS[3 + blooms], made[1][3], made[1][2], 'EXPANSION', 2)
  else
    -- The highest bit first, so that the bitmap is allocated once and exactly.
    redis.call('SETBIT', KEYS[3 + blooms], made[blooms][1] - 1, 0)
  end
end
local filter = KEYS[3 + blooms]

-- The bits of a mark in a filter; a number in Lua keeps the first 53 bits of a
-- mark. As in frontier.bloom.
local function positions(mark, generation)
  local size, found = made[generation][1], {}
  local rest = tonumber(mark) / 1024
  local x = rest % size
  rest = math.floor(rest / size)
  local a, b = rest % size, math.floor(rest / size) % size
  for i = 1, made[generation][2] do
    found[i] = x
    x, a = (x + a) % size, (a + b + i - 1) % size
  end
  return found
end

local function older_has(mark)
  for generation = 1, blooms - 1 do
    local has = true
    for _, bit in ipairs(positions(mark, generation)) do
      if redis.call('GETBIT', KEYS[3 + generation], bit) == 0 then
        has = false
        break
      end
    end
    if has then return true end
  end
  return false
end

-- Whether Bloom has the mark; if not, it has from now on.
local function bloom_add(mark)
  if native then return redis.call('BF.ADD', filter, mark) == 0 end
  if older_has(mark) then return true end
  local had = true
  for _, bit in ipairs(positions(mark, blooms)) do
    if redis.call('SETBIT', filter, bit, 1) == 0 then had = false end
  end
  return had
end

-- What to write where the set has answered: many per call.
local notes = {}
local function write_notes()
  if #notes == 0 then return end
  redis.call(native and 'BF.MADD' or 'BITFIELD', filter, unpack(notes))
  notes = {}
end
local function bloom_note(mark)
  local n = #notes
  if native then
    notes[n + 1] = mark
  else
    for _, bit in ipairs(positions(mark, blooms)) do
      notes[n + 1], notes[n + 2], notes[n + 3], notes[n + 4] = 'SET', 'u1', bit, 1
      n = n + 4
    end
  end
  if n > 4000 then write_notes() end
end

local verdicts = {}
if #places > 0 then
  local buckets_of = {}
  for i = 1, urls do
    if modes:byte(i) == 102 then -- f
      verdicts[i] = 'f'
    else
      local those = buckets_of[places[i]]
      if not those then
        those = {}
        buckets_of[places[i]] = those
      end
      those[#those + 1] = i
    end
  end
  for place, those in pairs(buckets_of) do
    local asked, fresh, mine = {}, {}, {}
    for j, i in ipairs(those) do asked[j] = members[i] end
    local has = redis.call('SMISMEMBER', KEYS[place], unpack(asked))
    for j, i in ipairs(those) do
      local member, verdict = asked[j], 'n'
      if has[j] == 1 or mine[member] then
        verdict = 's'
      elseif era > 0 and has_bloom and bloom_add(marks[i]) then
        verdict = 'b'
      else
        mine[member], fresh[#fresh + 1] = true, member
        if has_bloom then
          last = last + 1
          if era == 0 then bloom_note(marks[i]) end
        end
      end
      verdicts[i] = modes:byte(i) == 109 and 'f' or verdict -- m
    end
    if #fresh > 0 then count = count + redis.call('SADD', KEYS[place], unpack(fresh)) end
  end
  write_notes()
else
  for i = 1, urls do
    local mode, verdict = modes:byte(i), 'f'
    if mode ~= 102 then
      verdict = 'n'
      if has_bloom then
        if bloom_add(marks[i]) then verdict = 'b' else last = last + 1 end
      end
      if mode == 109 then verdict = 'f' end
    end
    verdicts[i] = verdict
  end
end

local risen = {}
if #targets > 0 then
  local waiting, queued = {}, 0
  for i = 1, urls do
    local target, verdict = targets[i], verdicts[i]
    if target > 0 and (verdict == 'n' or verdict == 'f') then
      local list = waiting[target]
      if not list then
        list = {}
        waiting[target] = list
      end
      list[#list + 1] = items[i]
      queued = queued + 1
    end
  end
  for target, list in pairs(waiting) do
    local key, queue, score = unpack(lists[target])
    if redis.call('RPUSH', KEYS[key], unpack(list)) == #list then
      redis.call('ZADD', KEYS[2], score, queue)
      risen[#risen + 1] = target
    end
  end
  if queued > 0 then
    redis.call('HINCRBY', KEYS[1], 'ready', queued)
    redis.call('HINCRBY', KEYS[1], 'pushed', queued)
  end
end
if blooms ~= had_blooms or buckets ~= had_buckets then
  redis.call('HSET', KEYS[3], 'buckets', buckets, 'count', count, 'blooms', blooms, 'last', last)
elseif count ~= had_count or last ~= had_last then
  redis.call('HSET', KEYS[3], 'count', count, 'last', last)
end
return {1, buckets, count, blooms, last, era, table.concat(verdicts), risen}
