-- txn: run commands if all is there that the caller expects.
--
-- KEYS[1...]  all keys of the commands
-- ARGV[1]  count  how many conditions there are
-- ARGV[2]  later  the places in ARGV of milliseconds that count from now, and are replaced
--                 by the time on the server's clock, in ms
-- ARGV[3...]  for each condition what its command is to reply, '' for nothing, and the
--             command; then the commands that are to be run. A command is its name, the
--             place of its key in KEYS, how many arguments follow, and these.
--
-- Returns the replies to the commands; or nil if a condition does not hold, and then
-- nothing is done.

local at, replies = 3, {}

if ARGV[2] ~= '' then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  for place in string.gmatch(ARGV[2], '%d+') do
    place = tonumber(place)
    ARGV[place] = string.format('%.0f', now + tonumber(ARGV[place]))
  end
end

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
