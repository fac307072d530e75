-- What the scripts share that grant the lock KEYS[1], or look at the line for it. The names of the
-- line's keys are made here and not among KEYS, so that on a cluster a slot that moves needs to have
-- only those of a lock without a line.
local call, match, lock = redis.call, string.match, KEYS[1]
local fence, queue, waiters = lock .. ':fence', lock .. ':queue', lock .. ':waiters'

-- leave takes id out of line, and reports whether it was there.
local function leave(id)
  call('HDEL', waiters, id)
  if call('ZREM', queue, id) == 0 then return false end
  if call('EXISTS', queue) == 0 then call('DEL', waiters) end
  return true
end
