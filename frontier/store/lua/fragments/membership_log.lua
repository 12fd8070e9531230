-- membership_log: what has happened to the members of a crawl.
--
-- note(log, epoch, what, weight, nodes) adds an entry of each node to the list *log*:
-- '<epoch> <time, ms> <what> <weight> <node>'. What no node may be called has none. The list
-- keeps the last 500. One of another type is an error. Needs `clock`.

local function note(log, epoch, what, weight, nodes)
  local entries = {}
  for i = math.max(1, #nodes - 499), #nodes do
    if #nodes[i] <= 100 and string.find(nodes[i], '^%w[%w._-]*$') then
      entries[#entries + 1] = table.concat({epoch, now_text, what, weight, nodes[i]}, ' ')
    end
  end
  if #entries == 0 then return end
  local kind = redis.call('TYPE', log).ok
  if kind ~= 'list' and kind ~= 'none' then redis.call('LLEN', log) end -- fails
  redis.pcall('RPUSH', log, unpack(entries)) -- not there any more, as slots move: lost
  redis.pcall('LTRIM', log, -500, -1)
end
