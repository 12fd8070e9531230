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
  local epoch = redis.call('GET', KEYS[2]) or '0'
  if #epoch <= 15 and string.find(epoch, '^%d+$') then
    return epoch
  end
  redis.call('SET', KEYS[2], now_text)
  return now_text
end

local function next_epoch()
  return string.format('%.0f', redis.call('INCR', KEYS[2]))
end

local function read_order(begins)
  local order = redis.call('GET', KEYS[5]) or ''
  if begins then redis.call('DEL', KEYS[5]) end -- not read again: it may go as slots move
  return not begins and (order == 'drain' or order == 'remove') and order or ''
end
