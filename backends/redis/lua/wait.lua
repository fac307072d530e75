-- Take the lock KEYS[1], with its fence KEYS[2], for ARGV[1] (id) for ARGV[2] (ms)
-- if it is free and nobody comes first, and confirm it if it was granted to
-- ARGV[1] meanwhile. Else, where is the place to wait at (number, channel),
-- or nil: ARGV[1] then is in line, where it keeps the place that it has.
-- Reply: {1, ms of the lease, token}, or {0, ms left of the holder's lease, 0 if it is the
-- first in line, the server's clock (ms)}.
--
-- A lock that is free, or its own, has been seen to before this, by free.lua.
local left = call('PTTL', lock)
if not where or left < 0 then return {0, left, 0} end
local known = call('HMGET', waiters, id, ' last', ' until')
local record = now .. ' ' .. ttl .. ' ' .. where
local rank = known[1] and call('ZRANK', queue, id)
if rank then
  call('HSET', waiters, id, record)
else
  local place = us -- by the clock, but never before others
  if known[2] and known[2] - place >= 0 then place = string.format('%.0f', known[2] + 1) end
  rank = known[2] and not known[1] and 1 or 0 -- who is known and has no place: the line was lost
  -- What may be refused comes first, so that nothing is left behind: a fence of another type, and the place.
  local last = rank == 0 and call('GET', fence)
  call('ZADD', queue, place, id)
  call('HSET', waiters, id, record, ' last', place)
  -- While there is a queue, no fence is a bare number: so acquire.lua may see that there is none.
  if last and match(last, '^%d+$') then call('SET', fence, last .. ' -', 'KEEPTTL') end
end
if not known[3] or known[3] - now < life + 1000 then expire() end
return {0, left, rank, tonumber(now)}
