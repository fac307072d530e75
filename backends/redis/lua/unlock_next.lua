-- The end of unlock where others wait. Whatever passing on comes to, the hold has
-- ended.
local soon
if holds then
  local ok, passed, _, ms = pcall(pass)
  if not (ok and passed) and call('GET', lock) == ARGV[1] then call('DEL', lock) end
  if not (ok and ms) then return 1 end
  soon = ms
end
