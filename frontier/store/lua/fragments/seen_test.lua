-- seen_test: test the URLs of a push, and mark those that are new.
--
-- seen_test(verdicts, keys, layout, filters, made, modes, marks, places, forced)
-- fills verdicts, a letter per URL, and changes count, last and claims of the layout; what it
-- needs is told in `queue_push`. It returns the deliveries of those whose process is
-- gone, by their numbers. Needs `bloom` and `bloom_note`.
-- Where there is a set it answers, and Bloom is only written, if it has a filter: the
-- set is exact and ten times as quick to ask. Once a set was given up (era > 0), Bloom
-- is asked about what the present one does not have.

-- Whether a URL that the set may have is new, seen, or seen as Bloom says.
local function tested(layout, filters, made, mark, place, noted)
  if not place then
    return #made > 0 and ask(filters, made, mark) and 'b' or 'n'
  elseif layout[5] == 0 then
    if redis.call('SADD', place, mark) == 0 then return 's' end
    if #made > 0 then noted[#noted + 1] = mark end
  elseif redis.call('SISMEMBER', place, mark) == 1 then
    return 's'
  elseif #made > 0 and ask(filters, made, mark) then
    return 'b'
  else
    redis.call('SADD', place, mark)
  end
  layout[2] = layout[2] + 1
  return 'n'
end

local function seen_test(verdicts, keys, layout, filters, made, modes, marks, places, forced)
  local noted, tries = {}, {}
  for i = 1, #modes do
    local mode, mark, verdict = modes:byte(i), marks[i], 'n'
    local id = forced[2] and forced[2][i] or ''
    local is_again = id ~= '' and redis.call('SADD', keys[forced[1]], id) == 0
    if is_again then
      verdict = 's'
    elseif mode == 102 then -- f
      verdict = 'f'
    elseif mode < 58 then -- a digit
      verdict = 'o'
      if mark then claim(keys, layout, mark, mode - 48) end
    else
      verdict = tested(layout, filters, made, mark, keys[places[i]], noted)
    end
    verdicts[i] = verdict
    if #made > 0 and verdict == 'n' then layout[4] = layout[4] + 1 end
    if mode == 108 and verdict == 'n' and mark then -- l
      claim(keys, layout, mark, '')
    elseif layout[6] and (verdict == 's' or verdict == 'b') and mode ~= 109
        and not is_again then
      verdict, tries[i] = claimed(keys[4], mark, verdict)
    end
    verdicts[i] = mode == 109 and not is_again and 'f' or verdict -- m
  end
  if #noted > 0 then note(filters[#made], made[#made], noted) end
  return tries
end
