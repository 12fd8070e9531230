-- claims: the marks whose requests only one process has, or had.
--
-- claim(keys, layout, mark, tries) notes a mark in keys[4], `claimed`; in a partition
-- that had none, also that it has some. tries is '', or how often the request of a
-- process that is gone was delivered.
-- claimed(key, mark, verdict) is what becomes of a mark that was found seen: c if a
-- process has it, or new, and the deliveries so far, if that is gone; this push takes it.

local function claim(keys, layout, mark, tries)
  redis.call('HSET', keys[4], mark, tries)
  if not layout[6] then layout[6] = redis.call('HSET', keys[3], 'claims', 1) end
end

local function claimed(key, mark, verdict)
  local tries = redis.call('HGET', key, mark)
  if not tries then return verdict end
  if tries == '' then return 'c' end
  redis.call('HSET', key, mark, '')
  return 'n', tries
end
