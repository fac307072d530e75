-- Take the lock KEYS[1], with its fence KEYS[2], for ARGV[1] (id) for ARGV[2] (ms)
-- if it is free and nobody comes first, and confirm it if it was granted to
-- ARGV[1] meanwhile. Else, where is the place to wait at (fair, number, channel),
-- or nil: ARGV[1] then is in line, where it keeps the place that it has.
-- Reply: {1, ms of the lease, token, 1 if someone fair waits}, or {0, ms left of the
-- holder's lease, how many are before it in line}.
local id, ttl = ARGV[1], ARGV[2]
local channel = where and string.match(where, '%S+$') or string.match(ARGV[4] or '', '%S+') or '-'
local holder, token, err = call('GET', lock), nil, nil

if holder == id then -- but its fence was deleted: it is seeded again
  token, err = count(ttl, channel)
  if err then return err end
  return {1, call('PTTL', lock), tonumber(token), fairwaits()}
end

if not holder then
  local head = first()
  if not head or head == id then
    token, err = count(ttl, channel)
    if err then return err end
    call('SET', lock, id, 'PX', ttl)
    if head then
      drop(id)
      pcall(tellfirst, ttl)
    end
    return {1, tonumber(ttl), tonumber(token), fairwaits()}
  end
  err = pass()
  if err then return err end
end

local left = call('PTTL', lock)
if not where or left < 0 then return {0, left, 0} end
local fair = string.sub(where, 1, 1) == '1'
local placed = call('ZSCORE', queue, id)
-- These may be refused, and come before what would then be left behind.
if fair then keepfair(id) end
call('HSET', waiters, id, string.format('%.0f ', now + life) .. ttl .. ' ' .. where)
call('PEXPIRE', waiters, life + 1000)
if not placed then
  if fair then
    local listens = string.match(call('GET', fence) or '', '^%d+ (%S+)$')
    if listens then tell(listens, '!' .. lock) end
  end
  local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
  call('ZADD', queue, (last[2] or 0) + 1, id)
end
call('PEXPIRE', queue, life + 1000)
return {0, left, call('ZRANK', queue, id)}
