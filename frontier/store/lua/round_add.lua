-- round_add: note URLs of a round as in progress, before they are queued.
-- include: rounds
--
-- KEYS[1]  sites   sorted set of the names of sites by when to look at them, in ms
-- KEYS[2]  site    hash {state, want, round, emitted, wait, ...} of one site
-- KEYS[3]  round   hash: id of a URL in progress to '<a|q><partition>:<feed> <url>'
-- KEYS[4]  had     set of ids of URLs that this round is done with
-- KEYS[5]  rounds  list of the site's last rounds, the newest first
-- ARGV[1]  name    of the site
-- ARGV[2]  round   the number of the round
-- ARGV[3...]       ids, each with '<partition>:<feed> <url>'
--
-- Returns a letter for each: n if it is to be queued, also if it was noted for the same feed
-- and may not have been; q if this round has queued it, or will for another feed; l if the
-- round is over.

local state, number = unpack(redis.call('HMGET', KEYS[2], 'state', 'round'))
local letters, new = {}, 0
for i = 3, #ARGV, 2 do
  local letter, before = 'n', redis.call('HGET', KEYS[3], ARGV[i])
  if state ~= 'crawling' or number ~= ARGV[2] then
    letter = 'l'
  elseif before then
    local feed = ARGV[i + 1]:match('^%-?%d+:(%x*) ')
    letter = feed and before:match('^a%-?%d+:(%x*) ') == feed and 'n' or 'q'
  elseif redis.call('SISMEMBER', KEYS[4], ARGV[i]) == 1 then
    letter = 'q'
  else
    redis.call('HSET', KEYS[3], ARGV[i], 'a' .. ARGV[i + 1])
    new = new + 1
  end
  letters[#letters + 1] = letter
end
if new > 0 then add('urls', new) end
return table.concat(letters)
