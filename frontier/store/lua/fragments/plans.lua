-- plans: do several plans, each of a partition, in one call.
--
-- KEYS[1...]  those of the first plan, then those of the next
-- ARGV[1...]  a plan each, msgpack [keys, ...]: how many of the KEYS are its own
--
-- each_plan(act, undo) returns a reply per plan: act(keys, done, ...) is given the plan's
-- keys, a table of its own and what the plan has after its first. If act fails, that ends
-- the call, after undo(keys, done, ...).

-- The error of the call: the number behind BADKEY is that of one of the KEYS, of which
-- the plan's own come after so many.
local function fault(failure, before)
  local why = type(failure) == 'table' and failure.err or failure
  why = why:gsub('BADKEY (%d+)', function(n) return 'BADKEY ' .. before + n end)
  return redis.error_reply(why) -- error(why) would hide its code from a Valkey 9 client
end

local function each_plan(act, undo)
  local replies, first = {}, 0
  for n, packed in ipairs(ARGV) do
    local plan, keys, done = cmsgpack.unpack(packed), KEYS, {}
    if #ARGV > 1 then keys = {unpack(KEYS, first + 1, first + plan[1])} end
    local fine, reply = pcall(act, keys, done, unpack(plan, 2))
    if not fine then
      undo(keys, done, unpack(plan, 2))
      return fault(reply, first)
    end
    first = first + plan[1]
    replies[n] = reply
  end
  return replies
end
