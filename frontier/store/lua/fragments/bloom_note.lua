-- bloom_note: write marks to the last Bloom generation, without asking it.
--
-- note(filter, made, marks) writes them with many bits per command; made is {bits,
-- hashes} of the filter, a key. Needs `bloom`.

local AT_ONCE = 8 -- marks per BITFIELD

local function note(filter, made, marks)
  local size, hashes = made[1], made[2]
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
