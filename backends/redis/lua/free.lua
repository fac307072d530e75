-- The part of wait.lua for a lock that nobody holds, or whose holder asks again: it is within
-- an if, and goes on where somebody else has it in the end.
-- grant gives id the lock for ms, with the next fencing token, and replies so or with an error.
local function grant(ms)
  local token, life = us, ms + 3600000
  local last = redis.pcall('SET', fence, token .. ' -', 'PX', life, 'GET')
  if type(last) == 'table' then return last end -- an error: something else is there
  if last then
    local n = match(last, '^%d+$') or match(last, '^(%d+) %-$')
    if not n or n - 9007199254740991 >= 0 then -- there is none after it
      call('SET', fence, last)
      return redis.error_reply('COORDCORRUPT the fence is not a token')
    end
    if n - token >= 0 then
      token = string.format('%.0f', n + 1)
      call('SET', fence, token .. ' -', 'PX', life)
    end
  end
  if not holder then call('SET', lock, id, 'PX', ms) end
  return {1, tonumber(ms), tonumber(token)}
end

-- It holds, but its fence was deleted: it is seeded again.
if holder then return grant(call('PTTL', lock)) end

local head = first()
if not head then return grant(ttl) end
if head == id then
  local reply = grant(ttl)
  if reply.err then return reply end
  drop(id)
  pcall(tellfirst, ttl)
  return reply
end
local err, ms
holder, err, ms = pass()
if err then return err end
if ms then tellfirst(ms) end
