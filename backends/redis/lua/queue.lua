-- Prelude: what is seldom done with the queue.
-- include offer.lua

-- life (ms) is how long a waiter that was passed over keeps its place without a sign of life.
local life = 16000
local t = call('TIME')
local us = t[1] .. string.sub('00000' .. t[2], -6) -- stays text, as in grant.lua
local now = string.sub(us, 1, -4)

-- expire lets both keys of the queue outlive all places by far, so that it is seldom needed.
local function expire()
  call('HSET', waiters, ' until', now + 2 * life)
  call('PEXPIRE', waiters, 2 * life)
  call('PEXPIRE', queue, 2 * life)
end

-- sweep drops those who were passed over and are dead, some at a time.
local function sweep()
  local ids, dead = call('ZRANGEBYSCORE', queue, silent, '+inf', 'LIMIT', 0, most), {}
  if not ids[1] then return end
  for i, record in ipairs(call('HMGET', waiters, unpack(ids))) do
    local alive = match(record or '', '^%d+')
    if not alive or now - alive >= life then dead[#dead + 1] = ids[i] end
  end
  if not dead[1] then return end
  call('ZREM', queue, unpack(dead))
  if call('EXISTS', queue) == 1 then call('HDEL', waiters, unpack(dead)) else call('DEL', waiters) end
end
