-- crawl_control: change what an operator wants of a crawl, and note who did, in one step.
-- include: clock pause
--
-- KEYS[1]  meta         hash {state, paused, controls, ...} of the crawl
-- KEYS[2]  controls     hash: what is changed to '<time, ms> <who>\n<value>'
-- KEYS[3]  control_log  list of '<version> <time, ms> <verb> <who>\n<what>', oldest first
-- ARGV[1]  verb   what is done: paused, resumed, or a word for the log alone
-- ARGV[2]  who    the operator, without a line feed
-- ARGV[3]  what   the rest of the entry in the log; may be empty
-- ARGV[4]  most   entries that controls may have
-- ARGV[5]  kept   entries that the log keeps
-- ARGV[6...]      fields of controls and their values; '' removes one. Without any, but
--                 for paused and resumed, it is the log alone that gets an entry
--
-- Returns {state, version, done}: done is 1; 0 if all was so already, or the crawl is not
-- open; -1 if there would be too many entries. The version grows with each change, and is
-- none that was before: a node reads what is wanted when it hears of another.

local state, paused, known = unpack(redis.call('HMGET', KEYS[1], 'state', 'paused', 'controls'))
known = tonumber(string.match(known or '', '^' .. string.rep('%d?', 15) .. '$') or '') or 0
local before = string.format('%.0f', known)
if state ~= 'open' then return {state or '', before, 0} end
redis.call('LLEN', KEYS[3]) -- which fails before anything is written

local wanted, added = {}, 0
for i = 6, #ARGV, 2 do
  local old = redis.call('HGET', KEYS[2], ARGV[i])
  if ARGV[i + 1] == '' then
    if old then wanted[#wanted + 1], added = i, added - 1 end
  elseif not old or string.match(old, '\n(.*)$') ~= ARGV[i + 1] then
    wanted[#wanted + 1], added = i, added + (old and 0 or 1)
  end
end
local done = #wanted > 0 or #ARGV == 5
if ARGV[1] == 'paused' then done = not is_paused(paused) end
if ARGV[1] == 'resumed' then done = is_paused(paused) end
if not done then return {state, before, 0} end
if added > 0 and redis.call('HLEN', KEYS[2]) + added > tonumber(ARGV[4]) then
  return {state, before, -1}
end

local by = now_text .. ' ' .. ARGV[2]
for _, i in ipairs(wanted) do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[2], ARGV[i])
  else
    redis.call('HSET', KEYS[2], ARGV[i], by .. '\n' .. ARGV[i + 1])
  end
end
if ARGV[1] == 'paused' then redis.call('HSET', KEYS[1], 'paused', by) end
if ARGV[1] == 'resumed' then redis.call('HDEL', KEYS[1], 'paused') end
local version = string.format('%.0f', math.max(now, known + 1))
redis.call('HSET', KEYS[1], 'controls', version)
redis.call('RPUSH', KEYS[3],
  table.concat({version, now_text, ARGV[1], ARGV[2]}, ' ') .. '\n' .. ARGV[3])
redis.call('LTRIM', KEYS[3], -tonumber(ARGV[5]), -1)
return {state, version, 1}
