-- The line of those who wait for the lock KEYS[1]: what the scripts share that
-- look at it. They come here only when there is a line. Everybody waits for what they
-- do, and mostly for the calls: so the usual case has few of them, and makes few functions.
--
-- The sorted set :queue has the ids in the order in which they came, by place. The hash
-- :waiters has what is known of each,
--
--   alive-at(ms) TTL(ms) number channel
--
-- and, with a blank before the name, which no id has: ' last', the place of the youngest;
-- ' until' (ms), when both keys expire. It is gone when the line is empty.
--
-- A waiter is told on the channel of its client: "number token ms at" that it was
-- granted at this moment (ms) a lease of so many ms; "number ms" that it is the first in
-- line, behind a lease with that much left; "number" that it is to look for itself.
-- A channel of "-" is one that nobody can listen to. Messages may get lost: who
-- waits looks for itself once in a while. The names of these keys are made here and
-- not among KEYS, so that on a cluster a slot that moves needs to have only those
-- of a lock without a line.
local call, match, lock = redis.call, string.match, KEYS[1]
local fence, queue, waiters = lock .. ':fence', lock .. ':queue', lock .. ':waiters'
local t = call('TIME')
local us = t[1] .. string.sub('00000' .. t[2], -6) -- stays text, and so do others: to print a number takes as long as a call
local now = string.sub(us, 1, -4)

-- provisional (ms) is how long a grant lasts at most that its waiter does not
-- renew or confirm, life how long a waiter is in line that does not refresh its place.
local provisional, life = '1000', 8000

-- expire lets both keys outlive all places by far, so that it is seldom needed.
local function expire()
  call('HSET', waiters, ' until', now + 2 * life)
  call('PEXPIRE', waiters, 2 * life)
  call('PEXPIRE', queue, 2 * life)
end

-- pass gives the lock, which nobody is to have any more, to the first in line who lives: for a
-- short while, until it confirms by a renewal. It gives that id, or nil and perhaps an error, with
-- which the first has lost its place, and is told to look for itself. The last result says in how many
-- ms the next in line is to look for itself, if the keeper of its client could be too late
-- for that: because nobody has heard of the grant, or because it is so short.
local function pass()
  while true do
    local first = call('ZPOPMIN', queue)
    local id, place = first[1], first[2]
    if not id then return nil end
    local known = redis.pcall('HMGET', waiters, id, ' last')
    if known.err then -- not a hash, or elsewhere, while the slot moves
      call('ZADD', queue, place, id)
      call('PEXPIRE', queue, 2 * life) -- it may have been the only one
      return nil, known
    end
    if known[2] == place then call('DEL', waiters) else call('HDEL', waiters, id) end
    local alive, ttl, n, channel = match(known[1] or '', '^(%d+) (%d+) (%d+) (%S+)$')
    if alive and now - alive < life then
      local ms, token = ttl - provisional > 0 and provisional or ttl, us
      -- The fence outlives the lease by an hour, as in acquire.lua.
      local last, err = redis.pcall('SET', fence, token .. ' -', 'PX', '3601000', 'GET'), nil
      if type(last) == 'table' then
        err = last -- something else is there
      elseif last then
        local before = match(last, '^(%d+) %-$') or match(last, '^%d+$')
        if before and before - token >= 0 then
          token = before - 9007199254740991 < 0 and string.format('%.0f', before + 1)
          if token then call('SET', fence, token .. ' -', 'PX', '3601000') end
        end
        if not (before and token) then
          call('SET', fence, last)
          err = redis.error_reply('COORDCORRUPT the fence is not a token')
        end
      end
      if err then
        if channel ~= '-' then redis.pcall('PUBLISH', channel, n) end
        return nil, err
      end
      call('SET', lock, id, 'PX', ms) -- from then on, which is after the moment that is told
      local heard = channel ~= '-'
        and redis.pcall('PUBLISH', channel, n .. ' ' .. token .. ' ' .. ms .. ' ' .. now)
      return id, nil, (heard ~= 1 or ms ~= provisional) and ms
    end
  end
end
