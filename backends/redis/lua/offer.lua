-- Prelude: how the lock is offered to those who wait for it.
--
-- The sorted set :queue has the ids of those who wait, in the order in which they came, by place. The
-- hash :waiters has what is known of each,
--
--   alive-at(ms) patience(ms) number channel
--
-- and, with a blank before the name, which no id has: ' last', the place of the youngest;
-- ' until' (ms), when both keys expire. It is gone when the queue is empty.
--
-- A lock that is given back is offered to the first in the queue: its value is '1 offered ID' for as long as
-- the patience says that this waiter takes at most to answer. It, and nobody else, can take the lock
-- meanwhile. A waiter that is offered the lock, or does not hear that it is, is passed over from then on:
-- its place is behind all others, by silent, until it shows life. So a waiter that is dead or frozen costs
-- one offer, and keeps its place.
--
-- A waiter is told on the channel of its client: "number" that it is to ask, because it was offered
-- the lock; "number ms" that it comes next, behind a lease with that much left. A channel of
-- "-" is one that nobody can listen to. Messages may get lost: each waiter looks for itself once
-- in a while, and when the lease ends that was in its way.
-- include keys.lua

-- unheard (ms) is added if nobody could be told, for those who look for themselves. most is how many waiters
-- a script looks at.
local unheard, silent, most = 200, 4000000000000000, 100

-- tell sends the waiter of a record its number and more. It gives whether that was heard, or nil if it cannot
-- be told, and its patience.
local function tell(record, more)
  local patience, number, channel = match(record or '', '^%d+ (%d+) (%d+) (%S+)$')
  if channel == '-' then return nil, patience end
  return number and redis.pcall('PUBLISH', channel, number .. more) == 1 or false, patience
end

-- tellnext says to the first in the queue who hears it that it comes next, behind a lease of ms. Nobody is passed
-- over for not hearing that: a client that has only begun to wait does not listen yet.
local function tellnext(ms)
  for i = 0, most - 1 do
    local id, place = unpack(call('ZRANGE', queue, i, i, 'WITHSCORES'))
    if not id or place - silent >= 0 or tell(call('HGET', waiters, id), ' ' .. ms) ~= false then return end
  end
end

-- pass offers the lock, which nobody is to have any more, to the first in the queue who hears of it. It
-- gives that id; or asker, if that comes first; or else nil, and whether there are more to look at.
local function pass(asker)
  local first, ms
  for i = 1, most + 1 do
    local id, place, after, behind = unpack(call('ZRANGE', queue, 0, 1, 'WITHSCORES'))
    if not id or place - silent >= 0 then break end
    local known = call('HMGET', waiters, id, after or id) -- fails if it is not ours, before anything is changed
    if id == asker then return id end
    if i > most then return nil, true end
    local heard, patience = tell(known[1], '')
    call('ZINCRBY', queue, silent, id)
    if heard then
      call('SET', lock, '1 offered ' .. id, 'PX', patience)
      if after and behind - silent < 0 and tell(known[2], ' ' .. patience) == false then pcall(tellnext, patience) end
      return id
    end
    if patience and (heard == nil or not first) then first, ms = id, patience + unheard end
    if heard == nil then break end
  end
  if first then call('SET', lock, '1 offered ' .. first, 'PX', ms) end
  return first
end
