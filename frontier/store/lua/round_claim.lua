-- round_claim: say which pages of a round a feed queues, so that no other one does.
--
-- KEYS[1]  site     hash {state, want, round, emitted, wait, ...} of one site
-- KEYS[2]  claimed  hash: fingerprint of a page of this round to the feed that queues it
-- ARGV[1]  round    the number of the round
-- ARGV[2]  feed     digest of the feed
-- ARGV[3...]        fingerprints of pages
--
-- Returns a letter for each: y if the feed queues it, n if another one does. A feed that
-- answers when its round is over queues all.

local is_over, letters = redis.call('HGET', KEYS[1], 'round') ~= ARGV[1], {}
for i = 3, #ARGV do
  local owner = not is_over and redis.call('HGET', KEYS[2], ARGV[i])
  if not is_over and not owner then redis.call('HSET', KEYS[2], ARGV[i], ARGV[2]) end
  letters[#letters + 1] = owner and owner ~= ARGV[2] and 'n' or 'y'
end
return table.concat(letters)
