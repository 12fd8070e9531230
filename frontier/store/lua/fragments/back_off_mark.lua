-- back_off_mark: a mark by which nodes see that back-offs have changed.
--
-- KEYS[1]  back_off  hash: host to its back-off, and '' to a mark
--
-- next_mark() is another mark than the hash has, or has had: the time in milliseconds, or
-- the number after that of the last. Needs `clock`.

local function next_mark()
  local last = redis.call('HGET', KEYS[1], '') or ''
  local is_one = #last <= 15 and last:find('^%d+$')
  return string.format('%.0f', math.max(now, (is_one and tonumber(last) or 0) + 1))
end
