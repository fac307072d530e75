-- Say that the waiters ARGV (ids) of the lock KEYS[1] are alive, and let the
-- first in line have the lock if it is free. Nobody is put in line.
-- Reply: {ms left of the holder's lease, and for each id 0 if it is not in line, 1
-- if it is, 2 if it is the first, 3 if it was granted}.
if not call('GET', lock) then pcall(pass) end
local alive = string.format('%.0f ', now + life)
local head, holder, reply = first(), call('GET', lock), {call('PTTL', lock)}
for i, id in ipairs(ARGV) do
  local known = call('HGET', waiters, id)
  if holder == id then
    reply[i + 1] = 3
  elseif known then
    known = string.match(known, '^%d+ (.*)$')
    call('HSET', waiters, id, alive .. known)
    if string.find(known, '^%d+ 1 ') then keepfair(id) end
    reply[i + 1] = id == head and 2 or 1
  else
    reply[i + 1] = 0
  end
end
call('PEXPIRE', queue, life + 1000)
call('PEXPIRE', waiters, life + 1000)
return reply
