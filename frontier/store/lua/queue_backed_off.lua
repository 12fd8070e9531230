-- queue_backed_off: which hosts are to be left alone.
-- include: clock
--
-- KEYS[1]  back_off  hash: host to '<until, ms> <since, ms> <failures> <reason>', and '' to a
--                    mark of the last change; of a partition, or of the crawl
-- ARGV[1]  most  hosts that are returned
-- ARGV[2]  mark  that the caller knows; '' if none
--
-- Returns {now, mark}, or {now, mark, host, entry, host, entry, ...} if the mark is another
-- than the caller's.

local mark = redis.call('HGET', KEYS[1], '') or ''
local reply = {now_text, mark}
if mark ~= '' and mark == ARGV[2] then return reply end
local entries
if redis.call('HLEN', KEYS[1]) <= tonumber(ARGV[1]) then
  entries = redis.call('HGETALL', KEYS[1])
else
  entries = redis.call('HSCAN', KEYS[1], '0', 'COUNT', ARGV[1])[2]
end
for i = 1, #entries, 2 do
  if entries[i] ~= '' then
    reply[#reply + 1], reply[#reply + 2] = entries[i], entries[i + 1]
  end
end
return reply
