-- plans: do several plans, each of a partition, in one call.
--
-- KEYS[1...]  those of the first plan, then those of the next
-- ARGV[1...]  a plan each, msgpack [keys, ...]: how many of the KEYS are its own
--
-- each_plan(act, undo) returns a reply per plan: act(keys, done, ...) is given the plan's
-- keys, a table of its own and what the plan has after its first. If act fails because of
-- a value it is {-2, why}, after undo(keys, done, ...). What is no fault of a value, such
-- as a server without memory, is an error as ever, and ends the call.

local FAULTS = {'BADKEY', 'WRONGTYPE', 'not an integer', 'overflow', 'attempt to'}

local function fault(failure)
  local why = type(failure) == 'table' and failure.err or failure
  for _, sign in ipairs(FAULTS) do
    if why:find(sign, 1, true) then return {-2, why} end
  end
  return redis.error_reply(why) -- error(why) would hide its code from a Valkey 9 client
end

local function each_plan(act, undo)
  local replies, first = {}, 0
  for n, packed in ipairs(ARGV) do
    local plan, keys, done = cmsgpack.unpack(packed), KEYS, {}
    if #ARGV > 1 then
      keys = {unpack(KEYS, first + 1, first + plan[1])}
      first = first + plan[1]
    end
    local fine, reply = pcall(act, keys, done, unpack(plan, 2))
    if not fine then
      undo(keys, done, unpack(plan, 2))
      reply = fault(reply)
    end
    if reply.err then return reply end
    replies[n] = reply
  end
  return replies
end
