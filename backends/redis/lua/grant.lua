-- refuse is what is replied to id that cannot have the lock: neither what it was offered is left nor its place.
local function refuse(id, err)
  call('DEL', lock)
  pcall(leave, id)
  return err
end

-- grant gives id the lock for ms (text), with the next fencing token, and takes it out of line. It gives
-- the reply. Numbers stay text: to print one costs more than a call.
local function grant(id, ms)
  local t = call('TIME')
  local token, life = t[1] .. string.sub('00000' .. t[2], -6), ms + 3600000
  -- The fence outlives the lease by an hour, as in acquire.lua.
  local last = redis.pcall('SET', fence, token .. ' -', 'PX', life, 'GET')
  if type(last) == 'table' then return refuse(id, last) end -- an error: something else is there
  if last then
    local n = match(last, '^(%d+) %-$') or match(last, '^%d+$')
    if not n or n - 9007199254740991 >= 0 then -- there is none after it
      call('SET', fence, last)
      return refuse(id, redis.error_reply('COORDCORRUPT the fence is not a token'))
    end
    if n - token >= 0 then
      token = string.format('%.0f', n + 1)
      call('SET', fence, token .. ' -', 'PX', life)
    end
  end
  call('SET', lock, id, 'PX', ms)
  pcall(leave, id)
  return {1, tonumber(ms), tonumber(token)}
end
