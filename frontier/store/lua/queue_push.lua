-- queue_push: queue the URLs that were not seen, and mark them, in one step.
--
-- KEYS[1...]       those of the first plan, then those of the next. In each plan
--                  1 is `counts`, the hash {born, ready, pushed, ...}, 2
--                  `queues`, the sorted set of queues that have ready URLs, 3
--                  `seen`, the hash {buckets, count, blooms, last, era, claims}, 4
--                  `pushers`, the hash process to '<number> <time, s> <verdicts>'
--                  of its last push, 5 `claimed`, the hash of marks whose requests
--                  only one process has or had; from 6 on Bloom generations, then
--                  buckets of the set and ready lists
-- ARGV[1...] plans  a partition each, msgpack [keys, born, turn, layout, base, room,
--                  made, splits, lists, modes, marks, members, places, targets, items]:
--                  keys     how many of the KEYS are the plan's
--                  born     the mark of the crawl, as `counts` has it; '' if none
--                  turn     {process, number, before}: the number of this push,
--                           which only grows, and that of the last one here that
--                           the process knows of, or 0. Empty if it has none
--                  layout   {buckets, blooms, era}, as the caller knows it
--                  base     how many buckets a new set has
--                  room     URLs that the set may have after its splits, and
--                           the last generation, if it is not a new one
--                  made     {bits, hashes} of each declared generation; one
--                           more than there are begins another. A native
--                           filter is the only one: {0, capacity, error};
--                           none, and Bloom is neither asked nor written
--                  splits   {from, to, threshold}: keys of buckets to split
--                           first, and the member from which on they move
--                  lists    {key, queue, score} of each ready list
--                  modes    a letter per URL: t (test and mark), m (queue and
--                           mark), f (queue), l (as t; a claim: the request is
--                           local to a process) or a digit (only the mark: its
--                           process is gone, after so many deliveries)
--                  marks    of each URL; empty without Bloom and set
--                  members  of each URL, for the set; empty if as the marks
--                  places   the key of each URL's bucket; empty without a set
--                  targets  the place in `lists` of each URL's queue, or 0 to
--                           mark and not queue; empty if that holds for all
--                  items    of each URL, as targets
--
-- Returns a reply per plan: {1, buckets, count, blooms, last, era, verdicts,
-- risen}, with a letter per URL (n new, s seen, b seen as Bloom says, c seen and
-- claimed, now or before, f queued untested, o noted) and the `lists` that were
-- empty before. Or {0, buckets, count, blooms, last, era}, and nothing of the plan
-- is done, if the caller's layout is not the current one or leaves too little room.
-- A claimed URL whose process is gone is new to the next push of it. Or {2, ...},
-- and nothing is done, if the push `before` is forgotten here. A push that has the
-- number of the last one was done already: its verdicts are told again, and all its lists.
-- Or {-1}, and nothing is done, if the partition is not marked as of that crawl:
-- what was in it is lost. Or {-2, why}, if a value of it is not what it has to be:
-- no URL of the plan is queued, and none is marked in the set.
-- Where there is a set it answers, and Bloom is only written: the set is exact
-- and ten times as quick to ask. Once a set was given up (era > 0), Bloom is
-- asked about what the present one does not have.

local floor = math.floor
local AT_ONCE = 8 -- marks per BITFIELD
local KEPT, MANY = 3600, 16 -- seconds; of more processes, those silent for longer go
local NO_MARK = 'BADKEY 1 its born is not the mark of a crawl'
local SEEN = {'buckets', 'count', 'blooms', 'last', 'era'}
local FAULTS = {'BADKEY', 'WRONGTYPE', 'not an integer', 'overflow', 'attempt to'}

-- The first bit of a mark in a filter of so many, and what takes it to the next;
-- a number in Lua keeps the first 53 bits of a mark. As in frontier.seen.bloom.
local function steps(mark, size)
  local rest = tonumber(mark) / 1024
  local high = floor(rest / size)
  local higher = floor(high / size)
  return rest - high * size, high - higher * size, higher % size
end

-- Splits a set's buckets. A bucket covers a range of members, and SMEMBERS of an
-- intset is sorted: the upper half moves. All members have as many digits, so
-- text compares as they do.
local function split(keys, splits)
  for _, one in ipairs(splits) do
    local moved = {}
    for _, member in ipairs(redis.call('SMEMBERS', keys[one[1]])) do
      if member >= one[3] then moved[#moved + 1] = member end
    end
    if #moved > 0 then
      redis.call('SREM', keys[one[1]], unpack(moved))
      redis.call('SADD', keys[one[2]], unpack(moved))
    end
  end
end

-- Whether one of the first generations, so many, has the mark.
local function has(keys, made, generations, mark)
  for generation = 1, generations do
    local size = made[generation][1]
    local x, a, b = steps(mark, size)
    local found = true
    for i = 1, made[generation][2] do
      if redis.call('GETBIT', keys[5 + generation], x) == 0 then
        found = false
        break
      end
      x, a = (x + a) % size, (a + b + i - 1) % size
    end
    if found then return true end
  end
  return false
end

-- Whether the filters have the mark; if not, the last has it from now on.
local function ask(keys, made, blooms, mark)
  local filter, size = keys[5 + blooms], made[blooms][1]
  if size == 0 then return redis.call('BF.ADD', filter, mark) == 0 end
  if has(keys, made, blooms - 1, mark) then return true end
  local x, a, b = steps(mark, size)
  local had = true
  for i = 1, made[blooms][2] do
    if redis.call('SETBIT', filter, x, 1) == 0 then had = false end
    x, a = (x + a) % size, (a + b + i - 1) % size
  end
  return had
end

-- Writes marks to the last generation: many bits per call.
local function note(filter, made, marks)
  local size, hashes = made[1], made[2]
  if size == 0 then
    if #marks > 0 then redis.call('BF.MADD', filter, unpack(marks)) end
    return
  end
  -- Only the offsets change from one command to the next.
  local ops, n, most = {}, 0, 4 * hashes * math.min(#marks, AT_ONCE)
  for i = 1, most, 4 do ops[i], ops[i + 1], ops[i + 3] = 'SET', 'u1', 1 end
  for _, mark in ipairs(marks) do
    local x, a, b = steps(mark, size)
    for at = n + 3, n + 4 * hashes, 4 do
      ops[at] = x
      x, a, b = x + a, a + b, b + 1
      if x >= size then x = x - size end
      if a >= size then a = a % size end
    end
    n = n + 4 * hashes
    if n == most then
      redis.call('BITFIELD', filter, unpack(ops, 1, n))
      n = 0
    end
  end
  if n > 0 then redis.call('BITFIELD', filter, unpack(ops, 1, n)) end
end

-- Notes a claimed mark; in a partition that had none, also that it has some.
local function claim(keys, mark, tries, has_claims)
  redis.call('HSET', keys[5], mark, tries)
  return has_claims or redis.call('HSET', keys[3], 'claims', 1)
end

-- What is to become of a mark that is seen, in a partition that has claims: taken
-- by this push, with the deliveries so far, if its process is gone.
local function claimed(key, mark, verdict)
  local tries = redis.call('HGET', key, mark)
  if not tries then return verdict end
  if tries == '' then return 'c' end
  redis.call('HSET', key, mark, '')
  return 'n', tries
end

-- Appends the URLs that are new to their lists; returns those that were empty.
local function queue(keys, lists, targets, items, verdicts, tries)
  local waiting, queued, risen = {}, 0, {}
  for i, target in ipairs(targets) do
    local verdict = verdicts[i]
    if target > 0 and (verdict == 'n' or verdict == 'f') then
      local list = waiting[target]
      if not list then
        list = {}
        waiting[target] = list
      end
      list[#list + 1] = tries[i] and tries[i] .. items[i]:sub(2) or items[i]
      queued = queued + 1
    end
  end
  for target, list in pairs(waiting) do
    local key, name, score = unpack(lists[target])
    if redis.call('RPUSH', keys[key], unpack(list)) == #list then
      redis.call('ZADD', keys[2], score, name)
      risen[#risen + 1] = target
    end
  end
  if queued > 0 then
    redis.call('HINCRBY', keys[1], 'ready', queued)
    redis.call('HINCRBY', keys[1], 'pushed', queued)
  end
  return risen
end

-- The number and the verdicts of the last push of a process; 0 if there is none.
local function last_of(pushers, process)
  local entry = redis.call('HGET', pushers, process)
  local number, told = string.match(entry or '', '^(%d+) %d+ (%a*)$')
  if entry and not number then error('BADKEY 4 an entry of it is not a push') end
  return tonumber(number or '0'), told
end

-- Notes the last push of a process, for which there was one before, or not.
local function note_push(pushers, turn, told, had)
  local now = tonumber(redis.call('TIME')[1])
  if not had and redis.call('HLEN', pushers) >= MANY then
    local all, gone = redis.call('HGETALL', pushers), {}
    for i = 1, #all, 2 do
      local at = string.match(all[i + 1], '^%d+ (%d+)')
      if tonumber(at or '0') < now - KEPT and #gone < 1000 then gone[#gone + 1] = all[i] end
    end
    if #gone > 0 then redis.call('HDEL', pushers, unpack(gone)) end
  end
  redis.call('HSET', pushers, turn[1], string.format('%.0f %.0f %s', turn[2], now, told))
end

-- Fails if one of the values of fields, so many digits long, is not a number.
local function check(what, names, ...)
  for i = 1, #names do
    local value = select(i, ...)
    if value and (#value > 15 or not value:find('^%d+$')) then
      error(what .. names[i] .. ' is not a number')
    end
  end
end

local function push(verdicts, keys, born, turn, layout, base, room, made, splits, lists,
    modes, marks, members, places, targets, items)
  local counts = redis.call('HMGET', keys[1], 'born', 'ready', 'pushed')
  if (counts[1] or '') ~= born then
    if counts[1] and not counts[1]:find('^%w+$') then error(NO_MARK) end
    return {-1}
  end
  check('BADKEY 1 its ', {'ready', 'pushed'}, counts[2], counts[3])
  local stored = redis.call('HMGET', keys[3], 'buckets', 'count', 'blooms', 'last', 'era',
    'claims')
  check('BADKEY 3 its ', SEEN, unpack(stored, 1, 5))
  local buckets, count = tonumber(stored[1] or base), tonumber(stored[2] or '0')
  local blooms, last = tonumber(stored[3] or '0'), tonumber(stored[4] or '0')
  local era, urls = tonumber(stored[5] or '0'), #modes
  local number, earlier = 0, ''
  if turn[1] then
    number, earlier = last_of(keys[4], turn[1])
    if number > turn[2] then error('BADKEY 4 it has a push that is yet to come') end
    if number == turn[2] then
      note_push(keys[4], turn, earlier, true) -- a write, for who waits until it is copied
      local every = {}
      for i = 1, #lists do every[i] = i end
      return {1, buckets, count, blooms, last, era, earlier, every}
    elseif number < turn[3] then
      return {2, buckets, count, blooms, last, era}
    end
  end
  if buckets ~= layout[1] or blooms ~= layout[2] or era ~= layout[3]
    or count + urls > room[1] or last + urls > room[2] then
    return {0, buckets, count, blooms, last, era}
  end
  -- What fails, fails before anything is written; but for sets and filters.
  if #lists > 0 then redis.call('ZCARD', keys[2]) end
  for _, list in ipairs(lists) do redis.call('LLEN', keys[list[1]]) end
  for _, one in ipairs(splits) do
    redis.call('SCARD', keys[one[1]])
    redis.call('SCARD', keys[one[2]])
  end
  local had_count, had_last, grows = count, last, #splits > 0 or #made > blooms
  if #splits > 0 then
    split(keys, splits)
    buckets = buckets + #splits
    redis.call('HSET', keys[3], 'buckets', buckets) -- also if a mark fails
  end
  local has_bloom = #made > 0
  if #made > blooms then
    blooms, last = blooms + 1, 0
    if made[1][1] == 0 then
      redis.call('BF.RESERVE', keys[5 + blooms], made[1][3], made[1][2], 'EXPANSION', 2)
    else
      -- The highest bit first, so that the bitmap is allocated once and exactly.
      redis.call('SETBIT', keys[5 + blooms], made[blooms][1] - 1, 0)
    end
  end
  if #members == 0 then members = marks end

  local noted, tries, has_claims = {}, {}, stored[6]
  for i = 1, urls do
    local mode, verdict = modes:byte(i), 'n'
    if mode == 102 then -- f
      verdict = 'f'
    elseif mode < 58 then -- a digit
      verdict = 'o'
      if marks[i] then has_claims = claim(keys, marks[i], mode - 48, has_claims) end
    elseif #places == 0 then
      if has_bloom and ask(keys, made, blooms, marks[i]) then verdict = 'b' end
    elseif era == 0 then
      if redis.call('SADD', keys[places[i]], members[i]) == 1 then
        count = count + 1
        if has_bloom then noted[#noted + 1] = marks[i] end
      else
        verdict = 's'
      end
    elseif redis.call('SISMEMBER', keys[places[i]], members[i]) == 1 then
      verdict = 's'
    elseif has_bloom and ask(keys, made, blooms, marks[i]) then
      verdict = 'b'
    else
      redis.call('SADD', keys[places[i]], members[i])
      count = count + 1
    end
    verdicts[i] = verdict
    if has_bloom and verdict == 'n' then last = last + 1 end
    if mode == 108 and verdict == 'n' and marks[i] then -- l
      has_claims = claim(keys, marks[i], '', has_claims)
    elseif has_claims and (verdict == 's' or verdict == 'b') and mode ~= 109 then
      verdict, tries[i] = claimed(keys[5], marks[i], verdict)
    end
    verdicts[i] = mode == 109 and 'f' or verdict -- m
  end
  if #noted > 0 then note(keys[5 + blooms], made[blooms], noted) end

  local risen = {}
  if #targets > 0 then risen = queue(keys, lists, targets, items, verdicts, tries) end
  if grows then
    redis.call('HSET', keys[3], 'buckets', buckets, 'count', count, 'blooms', blooms, 'last', last)
  elseif count ~= had_count or last ~= had_last then
    redis.call('HSET', keys[3], 'count', count, 'last', last)
  end
  local told = table.concat(verdicts)
  if turn[1] then note_push(keys[4], turn, told, number > 0) end
  return {1, buckets, count, blooms, last, era, told, risen}
end

-- Takes the marks of a plan that failed out of the set; returns its reply. What is no
-- fault of a value, such as a server without memory, is an error as ever.
local function undo(failure, verdicts, keys, marks, members, places)
  if #members == 0 then members = marks end
  for i, verdict in ipairs(verdicts) do
    if verdict == 'n' and places[i] then redis.call('SREM', keys[places[i]], members[i]) end
  end
  local why = type(failure) == 'table' and failure.err or failure
  for _, sign in ipairs(FAULTS) do
    if why:find(sign, 1, true) then return {-2, why} end
  end
  return redis.error_reply(why) -- error(why) would hide its code from a Valkey 9 client
end

local replies, first = {}, 0
for n, packed in ipairs(ARGV) do
  local plan = cmsgpack.unpack(packed)
  local keys = KEYS
  if #ARGV > 1 then
    keys = {unpack(KEYS, first + 1, first + plan[1])}
    first = first + plan[1]
  end
  local verdicts = {}
  local fine, reply = pcall(push, verdicts, keys, unpack(plan, 2))
  if not fine then reply = undo(reply, verdicts, keys, plan[11], plan[12], plan[13]) end
  if reply.err then return reply end
  replies[n] = reply
end
return replies
