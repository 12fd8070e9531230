-- pages_note: note which pages of a site's items failed, and which do not any more.
--
-- KEYS[1]  site    hash {state, want, round, emitted, wait, ...} of one site
-- KEYS[2]  failed  hash: fingerprint of a page that is asked for again to what it is
-- ARGV[1]  most    pages that are kept; others are counted, and not asked for again
-- ARGV[2]  pages   msgpack [[fingerprint, page], ...]: what is kept of a page that failed, ''
--                  of one that did not
--
-- Returns 'noted'. May be sent twice.

local room, got, count = tonumber(ARGV[1]) - redis.call('HLEN', KEYS[2]), {}, 0
for _, page in ipairs(cmsgpack.unpack(ARGV[2])) do
  local before = redis.call('HGET', KEYS[2], page[1])
  if page[2] == '' then
    if before then got[#got + 1] = page[1] end
  elseif before ~= page[2] then
    count = count + 1
    if not before then room = room - 1 end
    if before or room >= 0 then redis.call('HSET', KEYS[2], page[1], page[2]) end
  end
end
if count > 0 then
  local failed = redis.call('HGET', KEYS[1], 'failed')
  failed = failed and #failed < 16 and failed:find('^%d+$') and tonumber(failed) or 0
  redis.call('HSET', KEYS[1], 'failed', string.format('%.0f', failed + count))
end
if #got > 0 then redis.call('HDEL', KEYS[2], unpack(got)) end
return 'noted'
