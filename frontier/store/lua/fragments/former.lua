-- former: processes whose node id another one has by now, until they are silent.
--
-- KEYS[7]  former  hash: '<node id>/<process>/<number>' to '<beat, server ms>'
-- ARGV[1]  node    node id of the caller
--
-- read_own(value) returns beat, weight, process and number of its entry, nil without one.
-- keep_former(rest, beat) has the name of its id that ends so wait there.
-- note_twice(meta, log, epoch) notes that there are two of it; {-2}.
-- read_others(log, epoch, ttl, resumed) returns ids, weights and names as `read_map` has
-- them, then '', 0 and a name of each in former; and after '' and -1 the names of those that
-- were dropped, of which the other list is. Needs `membership` and `membership_log`.

local function read_own(value)
  return string.match(value or '', '^(%d+) (%d+) %d ?(%w*) ?(%d*)')
end

local function keep_former(rest, beat)
  redis.call('HSET', KEYS[7], ARGV[1] .. '/' .. rest, beat)
end

local function note_twice(meta, log, epoch)
  redis.call('HSET', meta, 'twice', now_text .. ' ' .. ARGV[1])
  note(log, epoch, 'twice', '0', {ARGV[1]})
  return {-2}
end

local function read_others(log, epoch, ttl, resumed)
  local live, dead, gone = read_map(ttl, resumed)
  local former = redis.call('HGETALL', KEYS[7])
  for i = 1, #former, 2 do
    if is_silent(tonumber(former[i + 1]) or 0, ttl, resumed) then
      gone[#gone + 1] = former[i]
      redis.call('HDEL', KEYS[7], former[i])
    else
      add(live, '', '0', former[i])
    end
  end
  drop(dead)
  note(log, string.format('%.0f', epoch + 1), 'died', '0', dead)
  for _, name in ipairs(gone) do add(live, '', '-1', name) end
  return live, gone
end
