-- txn: run commands if all is there that the caller expects.
--
-- KEYS[1...]  all keys of the commands
-- ARGV[1]  count  how many conditions there are
-- ARGV[2...]  for each condition what its command is to reply, '' for nothing, and the
--             command; then the commands that are to be run. A command is its name, the
--             place of its key in KEYS, how many arguments follow, and these.
--
-- Returns the replies to the commands; or nil if a condition does not hold, and then
-- nothing is done.

local at, replies = 2, {}

local function run()
  local last = at + 2 + tonumber(ARGV[at + 2])
  local reply = redis.call(ARGV[at], KEYS[tonumber(ARGV[at + 1])], unpack(ARGV, at + 3, last))
  at = last + 1
  return reply
end

for _ = 1, tonumber(ARGV[1]) do
  local expected = ARGV[at]
  at = at + 1
  if tostring(run() or '') ~= expected then return false end
end
while at <= #ARGV do replies[#replies + 1] = run() end
return replies
