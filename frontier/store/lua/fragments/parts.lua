-- parts: do the same for several partitions, in one call.
--
-- each_part(many, shared, own, act) returns a reply per part: act(keys, args) with its
-- KEYS, so many, and its own ARGV, which come after those that all parts share; nil is
-- false. What fails in one part, an error of the server too, is the reply to that part,
-- as if each had been a call of its own.

local function each_part(many, shared, own, act)
  local replies = {}
  for n = 1, #KEYS / many do
    local key, arg = (n - 1) * many, shared + (n - 1) * own
    local fine, reply = pcall(act, {unpack(KEYS, key + 1, key + many)},
      {unpack(ARGV, arg + 1, arg + own)})
    if not fine then
      reply = redis.error_reply(type(reply) == 'table' and reply.err or reply)
    end
    replies[n] = reply
  end
  return replies
end
