-- Prelude of the scripts of locks, after which the others come: the keys that belong to the lock KEYS[1]. A
-- script decides its usual case before it includes a prelude, because to make a function takes a quarter of
-- a call of Redis. So each prelude has few of them.
--
-- The names of the queue's keys are made here and not among KEYS, so that on a cluster a slot that moves
-- needs to have only those of a lock without one.
local call, match, lock = redis.call, string.match, KEYS[1]
local fence, queue, waiters = lock .. ':fence', lock .. ':queue', lock .. ':waiters'

-- leave takes id out of the queue, and reports whether it was there.
local function leave(id)
  call('HDEL', waiters, id)
  if call('ZREM', queue, id) == 0 then return false end
  if call('EXISTS', queue) == 0 then call('DEL', waiters) end
  return true
end
