-- What is seldom done with the line.

-- tell sends a message, if the client may be sent one.
local function tell(channel, text)
  if channel ~= '-' then redis.pcall('PUBLISH', channel, text) end
end

-- drop takes id out, and reports whether it was in line. The place before that of the youngest
-- who waited fairly counts as such a one: to look for it could take long.
local function drop(id)
  local place = call('ZSCORE', queue, id)
  if not place then return false end
  call('ZREM', queue, id)
  call('HDEL', waiters, id)
  local known = call('HMGET', waiters, ' last', ' fair')
  if known[1] ~= place and known[2] ~= place then return true end
  local before = call('ZREVRANGEBYSCORE', queue, place, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if known[1] == place then
    if not before then
      call('DEL', waiters)
      return true
    end
    call('HSET', waiters, ' last', before)
  end
  if known[2] == place then
    if before then call('HSET', waiters, ' fair', before) else call('HDEL', waiters, ' fair') end
  end
  return true
end

-- first gives the first in line who lives, its number and its channel. It drops those before it.
local function first()
  while true do
    local id = call('ZRANGE', queue, 0, 0)[1]
    if not id then return nil end
    local alive, n, channel = match(call('HGET', waiters, id) or '', '^(%d+) %d+ %d (%d+) (%S+)$')
    if alive and now - alive < life then return id, n, channel end
    drop(id)
  end
end

-- tellfirst says to the first in line who is not yet so, behind a lease of ms.
local function tellfirst(ms)
  local id, n, channel = first()
  if id then tell(channel, n .. ' ' .. ms) end
end
