-- bloom: ask the Bloom generations of a partition.
--
-- steps(mark, size) returns the first bit of a mark in a filter of so many, and what
-- takes it to the next; a number in Lua keeps the first 53 bits of a mark. As in
-- frontier.seen.bloom.
-- ask(filters, made, mark) tells whether one of the filters, keys, has the mark; if not,
-- the last has it from now on. made has {bits, hashes} of each.

local floor = math.floor

local function steps(mark, size)
  local rest = tonumber(mark) / 1024
  local high = floor(rest / size)
  local higher = floor(high / size)
  return rest - high * size, high - higher * size, higher % size
end

-- Whether one of the first generations, so many, has the mark.
local function has(filters, made, generations, mark)
  for generation = 1, generations do
    local size = made[generation][1]
    local x, a, b = steps(mark, size)
    local found = true
    for i = 1, made[generation][2] do
      if redis.call('GETBIT', filters[generation], x) == 0 then
        found = false
        break
      end
      x, a = (x + a) % size, (a + b + i - 1) % size
    end
    if found then return true end
  end
  return false
end

local function ask(filters, made, mark)
  local filter, size = filters[#made], made[#made][1]
  if has(filters, made, #made - 1, mark) then return true end
  local x, a, b = steps(mark, size)
  local had = true
  for i = 1, made[#made][2] do
    if redis.call('SETBIT', filter, x, 1) == 0 then had = false end
    x, a = (x + a) % size, (a + b + i - 1) % size
  end
  return had
end
