-- ready_lists: append URLs to the ready lists of a partition, or have them wait.
--
-- queue(keys, lists, targets, items, verdicts) appends those that are new or
-- forced, and returns the numbers of the lists that were empty, or are due next now.
-- keys[1] is `counts`, keys[2] `queues`; lists has {key, queue, score} of each list, or
-- {key, '', bucket, due, delay} if it is of URLs that wait, targets the list of each URL,
-- or 0; an item that waits has its queue's name and '\n' in front. Needs `waiting_lists`.

local function queue(keys, lists, targets, items, verdicts)
  local chosen, queued, waiting, told = {}, 0, 0, {}
  for i, target in ipairs(targets) do
    local verdict = verdicts[i]
    if target > 0 and (verdict == 'n' or verdict == 'f') then
      local list = chosen[target]
      if not list then
        list = {}
        chosen[target] = list
      end
      list[#list + 1] = items[i]
      queued = queued + 1
    end
  end
  for target, list in pairs(chosen) do
    local key, name, score, due, delay = unpack(lists[target])
    local is_news
    if due then
      is_news = wait_for_due(keys[key], keys[due], score, delay, list)
      waiting = waiting + #list
    elseif redis.call('RPUSH', keys[key], unpack(list)) == #list then
      redis.call('ZADD', keys[2], score, name)
      is_news = true
    end
    if is_news then told[#told + 1] = target end
  end
  if queued > waiting then redis.call('HINCRBY', keys[1], 'ready', queued - waiting) end
  if waiting > 0 then redis.call('HINCRBY', keys[1], 'waiting', waiting) end
  if queued > 0 then redis.call('HINCRBY', keys[1], 'pushed', queued) end
  return told
end
