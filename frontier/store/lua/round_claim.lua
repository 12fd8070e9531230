-- round_claim: say which pages of a round a feed queues, so that no other one does.
--
-- KEYS[1]  claimed  hash: fingerprint of a page to '<round> <feed>', who queued it last
-- ARGV[1]  round    the number of the round that the feed was asked in
-- ARGV[2]  feed     digest of the feed
-- ARGV[3...]        fingerprints of pages
--
-- Returns a letter for each: y if the feed queues it, n if another one does. A feed that
-- answers when its round is over queues nothing that others had in that one, or later.

local letters = {}
for i = 3, #ARGV do
  local value = redis.call('HGET', KEYS[1], ARGV[i])
  local round, owner = (value or ''):match('^(%d+) (.*)$')
  local is_taken = round and tonumber(round) >= tonumber(ARGV[1])
  if not is_taken then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[1] .. ' ' .. ARGV[2])
  end
  letters[#letters + 1] = is_taken and owner ~= ARGV[2] and 'n' or 'y'
end
return table.concat(letters)
