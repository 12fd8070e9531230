-- totals: what was pushed, acked and skipped, where a figure of it is damaged.
--
-- number(value) is the number that a text of at most 15 digits is, or nil.
-- totals(open, pushed, acked, skipped, born) returns the three, given how many URLs are
-- not done and what `counts` has stored, false for nothing. What is a number is kept,
-- else it follows from the rest; and whether it does not, and starts again at 0.

local function number(value)
  return value and #value <= 15 and string.find(value, '^%d+$') and tonumber(value)
end

local function totals(open, old_pushed, old_acked, old_skipped, born)
  local pushed, acked, skipped = number(old_pushed), number(old_acked), number(old_skipped)
  local is_new = born and not old_pushed and not old_acked -- nothing was ever queued there
  local lost = not is_new and not pushed and not acked or old_skipped and not skipped
    and not (pushed and acked)
  if not skipped then
    skipped = old_skipped and pushed and acked and math.max(0, pushed - open - acked) or 0
  end
  open = open + skipped
  pushed = pushed or open + (acked or 0)
  return pushed, acked or math.max(0, pushed - open), skipped, lost
end
