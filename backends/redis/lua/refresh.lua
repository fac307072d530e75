-- Say that the waiters ARGV (ids) of the lock KEYS[1] are alive, and let the
-- first in line have the lock if it is free. Nobody is put in line.
-- Reply: {ms left of the holder's lease, the server's clock (ms), and for each id 0 if it is not in line, 1
-- if it is, 2 if it is the first, 3 if it was granted}.
if not call('GET', lock) then
  local ok, _, _, ms = pcall(pass)
  if ok and ms then pcall(tellfirst, ms) end
end
local news = {}
local head, holder, reply = first(), call('GET', lock), {call('PTTL', lock), tonumber(now)}
local known, places = call('HMGET', waiters, unpack(ARGV)), call('ZMSCORE', queue, unpack(ARGV))
for i, id in ipairs(ARGV) do
  local record = known[i] and places[i] and match(known[i], '^%d+( .*)$')
  if holder == id then
    reply[i + 2] = 3
  elseif record then
    news[#news + 1] = id
    news[#news + 1] = now .. record
    reply[i + 2] = id == head and 2 or 1
  else
    reply[i + 2] = 0
  end
end
if news[1] then
  call('HSET', waiters, unpack(news))
  expire()
end
return reply
