-- Take the lock KEYS[1], with its fence KEYS[2], for ARGV[1] (id) for ARGV[2] (ms) if it is free and
-- nobody comes first, or if it is offered to ARGV[1], and confirm it if it was granted to ARGV[1]
-- meanwhile. Else ARGV[3] is the place to wait at (patience, number, channel), unless it is left out or
-- empty: ARGV[1] then is in the queue, where it keeps the place that it has. If ARGV[4] is 'again', it had one when
-- it asked. Without one it has left, and this question is late: nobody would know of what it takes.
-- Reply: {1, ms of the lease, token}, or {0, ms left of the holder's lease}, or {0, -3} to a question that is late.
-- include grant.lua
local id, where = ARGV[1], ARGV[3] or ''
local reply, holder = confirm(id, ARGV[2])
if reply then return reply end
if holder and string.sub(holder, 1, 2) ~= '1 ' then
  pcall(leave, id)
  return redis.error_reply('COORDCORRUPT the lock has a value of another version')
end
-- include queue.lua
if holder == '1 ' .. id then return grant(id, call('PTTL', lock)) end -- its fence was deleted: it is seeded again
if ARGV[4] == 'again' and not call('ZSCORE', queue, id) then return {0, -3} end
if not holder then
  local place = call('ZSCORE', queue, id)
  if place and place - silent >= 0 then call('ZINCRBY', queue, -silent, id) end
  sweep()
  local passed, more = pass(id)
  if not more and (not passed or passed == id) then return grant(id, ARGV[2]) end
end
local left = call('PTTL', lock)
if left == -2 then left = 1 end -- it is free, and the queue is longer than one script looks at
if where == '' or left < 0 then return {0, left} end
local known = call('HMGET', waiters, id, ' last', ' until')
local record = now .. ' ' .. where
local place = known[1] and call('ZSCORE', queue, id)
if place then
  call('HSET', waiters, id, record)
  if place - silent >= 0 then call('ZINCRBY', queue, -silent, id) end
else
  place = us -- by the clock, but never before others
  if known[2] and known[2] - place >= 0 then place = string.format('%.0f', known[2] + 1) end
  -- What may be refused comes first, so that nothing is left behind: a fence of another type, and the
  -- place. Who is known and has no place has lost it with the queue.
  local last = (known[1] or not known[2]) and call('GET', fence)
  call('ZADD', queue, place, id)
  call('HSET', waiters, id, record, ' last', place)
  -- While there is a queue, no fence is a bare number: so acquire.lua may see that there is none.
  if last and match(last, '^%d+$') then call('SET', fence, last .. ' -', 'KEEPTTL') end
end
if not known[3] or known[3] - now < life + 1000 then expire() end
return {0, left}
