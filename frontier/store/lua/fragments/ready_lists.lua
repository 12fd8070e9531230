-- ready_lists: append URLs to the ready lists of a partition.
--
-- queue(keys, lists, targets, items, verdicts, tries) appends those that are new or
-- forced, and returns the numbers of the lists that were empty. keys[1] is `counts`,
-- keys[2] `queues`; lists has {key, queue, score} of each list, targets the list of each
-- URL, or 0; an item begins with its deliveries, those of tries if it has some.

local function queue(keys, lists, targets, items, verdicts, tries)
  local waiting, queued, became_ready = {}, 0, {}
  for i, target in ipairs(targets) do
    local verdict = verdicts[i]
    if target > 0 and (verdict == 'n' or verdict == 'f') then
      local list = waiting[target]
      if not list then
        list = {}
        waiting[target] = list
      end
      list[#list + 1] = tries[i] and tries[i] .. items[i]:sub(2) or items[i]
      queued = queued + 1
    end
  end
  for target, list in pairs(waiting) do
    local key, name, score = unpack(lists[target])
    if redis.call('RPUSH', keys[key], unpack(list)) == #list then
      redis.call('ZADD', keys[2], score, name)
      became_ready[#became_ready + 1] = target
    end
  end
  if queued > 0 then
    redis.call('HINCRBY', keys[1], 'ready', queued)
    redis.call('HINCRBY', keys[1], 'pushed', queued)
  end
  return became_ready
end
