-- The end of unlock where ARGV[1] does not hold: it leaves the line, and what it was offered goes to
-- the next.
local id, holder = ARGV[1], call('GET', lock)
local offered = holder == 'offered ' .. id
local first = call('ZRANGE', queue, 0, 0)[1] == id
local waited = leave(id)
if offered or not holder then
  local ok, passed = pcall(pass)
  if offered and not (ok and passed) then call('DEL', lock) end
elseif first then
  pcall(tellnext, call('PTTL', lock))
end
return (waited or offered) and 1 or 0
