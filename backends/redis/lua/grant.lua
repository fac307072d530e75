-- Prelude: how a waiter is granted the lock.
-- include keys.lua

-- grant gives id the lock for ms (text), with the next fencing token, and takes it out of the queue. It gives
-- the reply. If it cannot grant, it leaves neither the offer to id nor its place. Numbers stay text: to print
-- one costs more than a call.
local function grant(id, ms)
  local t = call('TIME')
  local token, life = t[1] .. string.sub('00000' .. t[2], -6), ms + 3600000
  -- The fence outlives the lease by an hour, as in acquire.lua.
  local last = redis.pcall('SET', fence, token .. ' -', 'PX', life, 'GET')
  local err = type(last) == 'table' and last -- something else is there
  if last and not err then
    local n = match(last, '^(%d+) %-$') or match(last, '^%d+$')
    if not n or n - 9007199254740991 >= 0 then -- there is none after it
      call('SET', fence, last)
      err = redis.error_reply('COORDCORRUPT the fence is not a token')
    elseif n - token >= 0 then
      token = string.format('%.0f', n + 1)
      call('SET', fence, token .. ' -', 'PX', life)
    end
  end
  if err then call('DEL', lock) else call('SET', lock, '1 ' .. id, 'PX', ms) end
  pcall(leave, id)
  return err or {1, tonumber(ms), tonumber(token)}
end

-- confirm is the usual case of a waiter that was told: the lock is offered to id, which takes it for ms. It
-- may have done so before, and finds its hold then. confirm gives the reply, or nil and who holds the lock.
local function confirm(id, ms)
  local holder = call('GET', lock)
  if holder == '1 offered ' .. id then return grant(id, ms) end
  if holder ~= '1 ' .. id then return nil, holder end
  local left, ttl = call('PTTL', lock), tonumber(ms)
  if left < ttl then
    call('PEXPIRE', lock, ms)
    left = ttl
  end
  local last = call('GETEX', fence, 'PX', left + 3600000)
  if not last then return nil, holder end
  local token = match(last, '^%d+$') or match(last, '^(%d+) %-$')
  if not token then return redis.error_reply('COORDCORRUPT the fence is not a token') end
  return {1, left, tonumber(token)}
end
