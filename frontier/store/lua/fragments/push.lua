-- push: do one plan of `queue_push`, which tells what a plan and its reply have.
--
-- push(keys, verdicts, ...) returns the reply to the plan; verdicts is filled as marks
-- are written. unmark(keys, verdicts, ...) takes these out of the set again.

-- Fails if what the push writes cannot be written: before it writes anything, but for
-- sets and filters.
local function check_lists(keys, lists)
  if #lists > 0 then redis.call('ZCARD', keys[2]) end
  for _, list in ipairs(lists) do
    redis.call('LLEN', keys[list[1]])
    if list[4] then redis.call('ZCARD', keys[list[4]]) end
  end
end

local function push(keys, verdicts, born, known, room, made, lists, modes, marks, places,
    targets, items, forced)
  local counts = redis.call('HMGET', keys[1], 'born', 'ready', 'pushed', 'waiting')
  if not is_of(born, counts[1]) then return {-1} end
  local why = no_number(1, {'ready', 'pushed', 'waiting'}, {unpack(counts, 2, 4)})
  if why then error(why) end
  local layout = read_layout(keys, 3)
  if not is_at(layout, known) or layout[2] + #modes > room[1]
      or layout[4] + #modes > room[2] then
    return told(0, layout)
  end
  check_lists(keys, lists)
  seen_test(verdicts, keys, layout, {unpack(keys, 5, 4 + #made)}, made, modes, marks, places,
    forced)
  local became_ready = {}
  if #targets > 0 then became_ready = queue(keys, lists, targets, items, verdicts) end
  -- Also where nothing was new: a write, for who waits until it is copied. The push before
  -- may have been the same, and not copied yet.
  redis.call('HSET', keys[3], 'buckets', layout[1], 'count', layout[2], 'blooms', layout[3],
    'last', layout[4])
  return told(1, layout, table.concat(verdicts), became_ready)
end

local function unmark(keys, verdicts, _, _, _, _, _, _, marks, places, _, _, forced)
  for i, verdict in ipairs(verdicts) do
    local place = verdict == 'n' and places[i]
    if place then redis.call('SREM', keys[place], marks[i]) end
    local id = verdict == 'f' and forced[2] and forced[2][i] or ''
    if id ~= '' then redis.call('SREM', keys[forced[1]], id) end
  end
end
