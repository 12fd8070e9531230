-- sweeps: which heartbeat looks for dead nodes, and from when their silence counts.
--
-- KEYS[4]  meta  hash {swept_ms, resumed_ms, ttl_ms, ...} of the crawl
--
-- sweep(swept, resumed, ttl, begins) tells whether it is this one, by what is stored,
-- and from when: by one beat in a second, else the cost of all beats grew with the
-- square of the number of nodes. Where none did so for a fifth of the ttl, the server was
-- unreachable, its clock was set, or it is a copy that lacks so much: every node then has the
-- ttl to beat again, or one that lives, and counts on four fifths of it, would be dropped.
-- Not where a process begins after four times the ttl: all that were there have ended.
-- A figure that cannot be is none. Needs `clock`.

local function sweep(swept, resumed, ttl, begins)
  swept, resumed = tonumber(swept or ''), math.min(tonumber(resumed or '') or 0, now)
  local since = swept and math.abs(now - swept) or math.huge
  if swept and since >= ttl / 5 and not (begins and since >= 4 * ttl) then resumed = now end
  local sweeps = since >= math.min(1000, ttl / 20)
  if sweeps then
    -- The ttl is for commands, which have no setting of the crawl's nodes.
    redis.call('HSET', KEYS[4], 'swept_ms', now_text, 'resumed_ms',
      string.format('%.0f', resumed), 'ttl_ms', ttl)
  end
  return sweeps, resumed
end
