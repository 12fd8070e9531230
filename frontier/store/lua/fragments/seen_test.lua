-- seen_test: test the URLs of a push, and mark those that are new.
--
-- seen_test(verdicts, keys, layout, filters, made, modes, marks, places, forced)
-- fills verdicts, a letter per URL, and changes count, last and claims of the layout; what it
-- needs is told in `queue_push`. Needs `bloom`, `bloom_note` and `claims`.
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
  local noted = {}
  for i = 1, #modes do
    local mode, mark, verdict = modes:byte(i), marks[i], 'n'
    local id = forced[2] and forced[2][i] or ''
    if mode ~= 108 and id ~= '' and redis.call('SADD', keys[forced[1]], id) == 0 then
      verdict = 's'
    elseif mode == 102 then -- f
      verdict = 'f'
    else
      verdict = tested(layout, filters, made, mark, keys[places[i]], noted)
      verdicts[i] = verdict -- by which it is unmarked, if what follows fails
      if #made > 0 and verdict == 'n' then layout[4] = layout[4] + 1 end
      if mode == 108 and mark then -- l
        verdict = claim(keys, layout, mark, id, verdict)
      elseif mode == 109 then -- m
        verdict = 'f'
      else
        verdict = claimed(keys, layout, mark, verdict)
      end
    end
    verdicts[i] = verdict
  end
  if #noted > 0 then note(filters[#made], made[#made], noted) end
end
