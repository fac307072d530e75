-- The line of those who wait for the lock KEYS[1]: what the scripts share that
-- look at it. They come here only when there is a line, because to make these
-- functions takes longer than the usual case as a whole.
--
-- The sorted set :queue has the ids in the order in which they came, the hash
-- :waiters what is known of each:
--
--   alive-until(ms) TTL(ms) fair(0|1) number channel
--
-- The set :fair has the ids of those who wait fairly.
--
-- A waiter is told on the channel of its client: "number" that it was granted,
-- "number ms" that it is the first in line, behind a lease with that much left. And a
-- holder is, on the channel behind the fence's token: "!key" that someone fair waits.
-- A channel of "-" is one that nobody can listen to. Messages may get lost: who
-- waits looks for itself once in a while. The names of these keys are made here and
-- not among KEYS, so that on a cluster a slot that moves needs to have only those
-- of a lock without a line.
local call, lock = redis.call, KEYS[1]
local fence, queue, waiters, fairs = lock .. ':fence', lock .. ':queue', lock .. ':waiters', lock .. ':fair'
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- provisional (ms) is how long a grant lasts at most that its waiter does not
-- confirm, life how long a waiter is in line that does not refresh its place.
local provisional, life = 1000, 8000

local function drop(id)
  call('ZREM', queue, id)
  call('HDEL', waiters, id)
  redis.pcall('SREM', fairs, id)
end

-- keepfair says that id, which waits fairly, is alive; fairwaits is 1 if anyone is, or if
-- that cannot be told: on a cluster, while the slot moves.
local function keepfair(id)
  call('SADD', fairs, id)
  call('PEXPIRE', fairs, life)
end

local function fairwaits() return redis.pcall('EXISTS', fairs) ~= 0 and 1 or 0 end

-- first gives id, TTL, number and channel of the first in line who lives, and
-- drops those before it.
local function first()
  while true do
    local id = call('ZRANGE', queue, 0, 0)[1]
    if not id then return nil end
    local till, ttl, n, channel = string.match(call('HGET', waiters, id) or '', '^(%d+) (%d+) %d (%d+) (%S+)$')
    if till and tonumber(till) > now then return id, ttl, n, channel end
    drop(id)
  end
end

-- tell sends a message, if the client may be sent one.
local function tell(channel, text)
  if channel ~= '-' then redis.pcall('PUBLISH', channel, text) end
end

-- tellfirst says to the first in line who is not yet so, behind a lease of ms.
local function tellfirst(ms)
  local id, _, n, channel = first()
  if id then tell(channel, n .. ' ' .. string.format('%.0f', ms)) end
end

-- count is the next fencing token, as text, or nil and an error. It is of a holder that
-- listens to channel.
local function count(ttl, channel)
  local token = t[1] .. string.sub('00000' .. t[2], -6)
  local last = redis.pcall('GET', fence)
  if type(last) == 'table' then return nil, last end
  if last then
    last = string.match(last, '^(%d+)$') or string.match(last, '^(%d+) %S+$')
    if not last then
      return nil, redis.error_reply('COORDCORRUPT the fence is not a number')
    end
    if tonumber(last) >= tonumber(token) then token = string.format('%.0f', last + 1) end
  end
  call('SET', fence, channel == '-' and token or token .. ' ' .. channel, 'PX', ttl + 3600000)
  return token
end

-- pass gives the lock, which is free, to the first in line: provisionally, until
-- it confirms. One that cannot be given it is told to look for itself.
local function pass()
  local id, ttl, n, channel = first()
  if not id then return end
  local token, err = count(ttl, channel)
  if not token then
    tell(channel, n)
    return err
  end
  local ms = math.min(tonumber(ttl), provisional)
  call('SET', lock, id, 'PX', ms)
  drop(id)
  tell(channel, n)
  tellfirst(ms)
end
