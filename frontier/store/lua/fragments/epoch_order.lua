-- epoch_order: the epoch of the ring, and what an operator wants of the caller.
--
-- KEYS[2]  epoch  integer
-- KEYS[5]  order  string: drain or remove
--
-- read_epoch() returns the epoch, as a text; one that cannot be is replaced by the time,
-- which no node knows, so that all read the map. Needs `clock`.
-- next_epoch() makes it one more, and returns it, as a text.
-- read_order(begins) returns the order, or '' for none; what was ordered of an earlier
-- process of the same name, if this one begins, is forgotten.

local function read_epoch()
  local epoch = redis.pcall('GET', KEYS[2]) or '0'
  if type(epoch) == 'string' and #epoch <= 15 and string.find(epoch, '^%d+$') then
    return epoch
  end
  redis.call('SET', KEYS[2], now_text)
  return now_text
end

local function next_epoch()
  local epoch = redis.pcall('INCR', KEYS[2])
  if type(epoch) == 'number' then return string.format('%.0f', epoch) end
  redis.call('DEL', KEYS[2]) -- not ours; the next beat of each node reads the map
  return '0'
end

local function read_order(begins)
  local order = redis.pcall('GET', KEYS[5]) or ''
  if begins then redis.call('DEL', KEYS[5]) end -- not read again: it may go as slots move
  return not begins and (order == 'drain' or order == 'remove') and order or ''
end
