-- The end of unlock where the next in line is to be told that it is, or where ARGV[1]
-- does not hold: then it leaves the line.
if holds then
  pcall(tellfirst, soon)
  return 1
end
local head = call('ZRANGE', queue, 0, 0)[1]
local waited = drop(ARGV[1])
if call('EXISTS', lock) == 0 then
  local ok, _, _, ms = pcall(pass)
  if ok and ms then pcall(tellfirst, ms) end
elseif head == ARGV[1] then
  pcall(tellfirst, call('PTTL', lock))
end
return waited and 1 or 0
