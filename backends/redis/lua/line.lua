-- What is seldom done with the line.

-- tell sends a message, if the client may be sent one.
local function tell(channel, text)
  if channel ~= '-' then redis.pcall('PUBLISH', channel, text) end
end

-- drop takes id out, and reports whether it was in line.
local function drop(id)
  local place = call('ZSCORE', queue, id)
  if not place then return false end
  call('ZREM', queue, id)
  call('HDEL', waiters, id)
  if call('HGET', waiters, ' last') == place then
    local before = call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
    if before then call('HSET', waiters, ' last', before) else call('DEL', waiters) end
  end
  return true
end

-- first gives the first in line who lives, its number and its channel. It drops those before it.
local function first()
  while true do
    local id = call('ZRANGE', queue, 0, 0)[1]
    if not id then return nil end
    local alive, n, channel = match(call('HGET', waiters, id) or '', '^(%d+) %d+ (%d+) (%S+)$')
    if alive and now - alive < life then return id, n, channel end
    drop(id)
  end
end

-- tellfirst says to the first in line who is not yet so, behind a lease of ms.
local function tellfirst(ms)
  local id, n, channel = first()
  if id then tell(channel, n .. ' ' .. ms) end
end
