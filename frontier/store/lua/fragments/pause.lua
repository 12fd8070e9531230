-- pause: whether an operator has paused the crawl.
--
-- is_paused(value) says so of the field `paused` of meta, '<time, ms> <who>'. Anything else
-- is damage, and counts as nothing: a crawl must not stand still because of it.

local function is_paused(value)
  return string.match(value or '', '^%d+ .') ~= nil
end
