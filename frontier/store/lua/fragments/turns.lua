-- turns: which push of a process was the last in a partition.
--
-- last_push(keys, turn) returns the number and the verdicts of the last push of the
-- process of turn, {process, number, before}; 0 if there is none, or turn is empty.
-- note_push(keys, turn, told, had) notes that this push has told these verdicts; had is
-- whether the process had one before. keys[4] is `pushers`.

local KEPT, MANY = 3600, 16 -- seconds; of more processes, those silent for longer go

local function last_push(keys, turn)
  local entry = turn[1] and redis.call('HGET', keys[4], turn[1])
  local number, verdicts = string.match(entry or '', '^(%d+) %d+ (%a*)$')
  if entry and not number then error('BADKEY 4 an entry of it is not a push') end
  number = tonumber(number or '0')
  if turn[1] and number > turn[2] then error('BADKEY 4 it has a push that is yet to come') end
  return number, verdicts
end

local function note_push(keys, turn, verdicts, had)
  if not turn[1] then return end
  local now = tonumber(redis.call('TIME')[1])
  if not had and redis.call('HLEN', keys[4]) >= MANY then
    local all, gone = redis.call('HGETALL', keys[4]), {}
    for i = 1, #all, 2 do
      local at = string.match(all[i + 1], '^%d+ (%d+)')
      if tonumber(at or '0') < now - KEPT and #gone < 1000 then gone[#gone + 1] = all[i] end
    end
    if #gone > 0 then redis.call('HDEL', keys[4], unpack(gone)) end
  end
  redis.call('HSET', keys[4], turn[1], string.format('%.0f %.0f %s', turn[2], now, verdicts))
end
