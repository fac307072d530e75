-- Say that the waiters ARGV (ids) of the lock KEYS[1] are alive, and offer it to the first in the queue
-- if it is free. Nobody is put in the queue. They are noted to be alive before anybody is judged: after a
-- time in which the server could not be reached, all would seem dead.
-- Reply: {ms left of the holder's lease, and for each id 0 if it is not in the queue, 1 if it is, 2 if
-- it has the lock or is offered it}.
-- include queue.lua
local known, places = call('HMGET', waiters, ' until', unpack(ARGV)), call('ZMSCORE', queue, unpack(ARGV))
local alive, again, reply = {}, {}, {0}
for i, id in ipairs(ARGV) do
  local record = places[i] and match(known[i + 1] or '', '^%d+( .*)$')
  reply[i + 1] = record and 1 or 0
  if record then
    alive[#alive + 1] = id
    alive[#alive + 1] = now .. record
    if places[i] - silent >= 0 then
      again[#again + 1] = string.format('%.0f', places[i] - silent)
      again[#again + 1] = id
    end
  end
end
if alive[1] then
  call('HSET', waiters, unpack(alive))
  if not known[1] or known[1] - now < life + 1000 then expire() end
end
if again[1] then call('ZADD', queue, unpack(again)) end
sweep()
if call('EXISTS', lock) == 0 then pcall(pass) end
local holder = call('GET', lock)
if not holder then return reply end
if string.sub(holder, 1, 2) ~= '1 ' then return redis.error_reply('COORDCORRUPT the lock has a value of another version') end
for i, id in ipairs(ARGV) do
  if holder == '1 ' .. id or holder == '1 offered ' .. id then reply[i + 1] = 2 end
end
reply[1] = call('PTTL', lock)
return reply
