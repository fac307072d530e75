-- The part of wait.lua for a lock that nobody holds, or whose holder asks again: it is within
-- an if, and goes on where somebody else has it in the end.
local channel = match(where or ARGV[3] or '', '%S+$') or '-'

-- grant gives id the lock for ms, with the next fencing token, and replies so or with an error.
local function grant(ms)
  local token, behind, life = us, ' ' .. channel, ms + 3600000
  local last = redis.pcall('SET', fence, token .. behind, 'PX', life, 'GET')
  if type(last) == 'table' then return last end -- an error: something else is there
  if last then
    local n = match(last, '^(%d+)$') or match(last, '^(%d+) %S+$')
    if not n or n - 9007199254740991 >= 0 then -- there is none after it
      call('SET', fence, last)
      return redis.error_reply('COORDCORRUPT the fence is not a token')
    end
    if n - token >= 0 then
      token = string.format('%.0f', n + 1)
      call('SET', fence, token .. behind, 'PX', life)
    end
  end
  if not holder then call('SET', lock, id, 'PX', ms) end
  local fair = redis.pcall('HEXISTS', waiters, ' fair') ~= 0 -- true if it cannot be told: while the slot moves
  return {1, tonumber(ms), tonumber(token), fair and 1 or 0}
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
  reply[4] = redis.pcall('HEXISTS', waiters, ' fair') ~= 0 and 1 or 0
  return reply
end
local err, ms
holder, err, ms = pass()
if err then return err end
if ms then tellfirst(ms) end
