-- The end of unlock where others wait. Whatever passing on comes to, the hold has
-- ended.
if holds then
  call('DEL', lock)
  pcall(pass)
  return {1}
end
local head = call('ZRANGE', queue, 0, 0)[1]
local waited = call('ZREM', queue, ARGV[1])
if waited == 1 then drop(ARGV[1]) end
if call('EXISTS', lock) == 0 then
  pcall(pass)
elseif head == ARGV[1] then
  pcall(tellfirst, call('PTTL', lock))
end
return {waited}
