-- queue_backed_off: which hosts are to be left alone.
-- include: clock parts
--
-- KEYS[1...]  of each partition, or of the crawl, `back_off`, the hash host to
--             '<until, ms> <since, ms> <failures> <reason>', and '' to a mark of the last
--             change
-- ARGV[1]  most  hosts of each that are returned
-- ARGV[2...]     of each the mark that the caller knows; '' if none
--
-- Returns for each {now, mark}, or {now, mark, host, entry, host, entry, ...} if the mark is
-- another than the caller's.

local function backed_off(keys, args)
  local mark = redis.call('HGET', keys[1], '') or ''
  local reply = {now_text, mark}
  if mark ~= '' and mark == args[1] then return reply end
  local entries
  if redis.call('HLEN', keys[1]) <= tonumber(ARGV[1]) then
    entries = redis.call('HGETALL', keys[1])
  else
    entries = redis.call('HSCAN', keys[1], '0', 'COUNT', ARGV[1])[2]
  end
  for i = 1, #entries, 2 do
    if entries[i] ~= '' then
      reply[#reply + 1], reply[#reply + 2] = entries[i], entries[i + 1]
    end
  end
  return reply
end

return each_part(1, 1, 1, backed_off)
