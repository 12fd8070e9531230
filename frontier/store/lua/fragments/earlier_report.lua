-- earlier_report: what an earlier process of a node had counted stays in the totals.
--
-- keep_earlier(reports, node) moves the report of *node* in the hash *reports* to a field
-- of its own, '<node>~<time, ms>'. Of another type the hash is left as it is. Needs `clock`.

local function keep_earlier(reports, node)
  local report = redis.pcall('HGET', reports, node)
  if type(report) ~= 'string' then return end
  redis.pcall('HSET', reports, node .. '~' .. now_text, report)
  redis.pcall('HDEL', reports, node)
end
