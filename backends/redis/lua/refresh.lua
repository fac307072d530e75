-- Say that the waiters ARGV (ids) of the lock KEYS[1] are alive, and let the
-- first in line have the lock if it is free. Nobody is put in line.
-- Reply: {ms left of the holder's lease, the server's clock (ms), and for each id 0 if it is not in line, 1
-- if it is, 2 if it is the first, 3 if it was granted}. What is left is 0 unless one of them is the first.
local holder = call('GET', lock)
if not holder then
  local ok, _, _, ms = pcall(pass)
  if ok and ms then pcall(tellfirst, ms) end
  holder = call('GET', lock)
end
local alive, head, reply = {}, first(), {0, tonumber(now)}
local known, places = call('HMGET', waiters, ' until', unpack(ARGV)), call('ZMSCORE', queue, unpack(ARGV))
for i, id in ipairs(ARGV) do
  local record = known[i + 1] and places[i] and match(known[i + 1], '^%d+( .*)$')
  reply[i + 2] = holder == id and 3 or not record and 0 or id == head and 2 or 1
  if reply[i + 2] == 1 or reply[i + 2] == 2 then
    alive[#alive + 1] = id
    alive[#alive + 1] = now .. record
  end
  if reply[i + 2] == 2 then reply[1] = call('PTTL', lock) end
end
if alive[1] then
  call('HSET', waiters, unpack(alive))
  if not known[1] or known[1] - now < life + 1000 then expire() end
end
return reply
