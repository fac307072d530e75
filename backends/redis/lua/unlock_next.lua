-- The end of unlock where others wait. Whatever passing on comes to, the hold has
-- ended.
if holds then
  local ok, passed = pcall(pass)
  if not (ok and passed) then call('DEL', lock) end
  return 1
end
