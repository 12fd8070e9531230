-- numbers: find values that are no numbers, before a script computes with them.
--
-- no_number(key, names, values) is nil, or what is wrong if one of the values, those of
-- the fields `names` of the hash that is the caller's key number `key`, is not one of at
-- most 15 digits. What is missing is none. See `frontier.store.damage` for BADKEY.
--
-- Arithmetic alone would not do: 1.5, 1e5 and 0x10 are numbers to Lua and none to HINCRBY,
-- which then fails behind the first write; and its error names no key.

local function no_number(key, names, values)
  for i = 1, #names do
    local value = values[i]
    if value and (#value > 15 or not value:find('^%d+$')) then
      return 'BADKEY ' .. key .. ' its ' .. names[i] .. ' is not a number'
    end
  end
end
