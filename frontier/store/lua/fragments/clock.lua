-- clock: the server's time.
--
-- now is in milliseconds since the Unix epoch, a number; now_text is the same as a text,
-- in which Lua would leave out digits.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now_text = string.format('%.0f', now)
