-- block_mark: what of a ready list is in front of its mark.
--
-- before_mark(list, pop, most, long) is how many of at most so many URLs may be taken
-- with pop, LPOP or RPOP, from a list, so many long, before its mark is reached: the
-- element '*' that stands for blocks (see queue_spill). Most if there is none there.

local function before_mark(list, pop, most, long)
  local oldest = pop == 'LPOP'
  local mark = redis.call('LPOS', list, '*', 'RANK', oldest and 1 or -1, 'MAXLEN', most)
  if not mark then return most end
  return oldest and mark or long - mark - 1
end
