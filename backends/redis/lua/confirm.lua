-- The usual case of a waiter that was told: the lock KEYS[1] is offered to it, ARGV[1], which takes it
-- for ARGV[2] (ms). It may have done so before, and finds its hold then. What follows this file
-- decides all else, and says what is replied.
local holder = call('GET', lock)
if holder == 'offered ' .. ARGV[1] then return grant(ARGV[1], ARGV[2]) end
if holder == ARGV[1] then
  local left, ttl = call('PTTL', lock), tonumber(ARGV[2])
  if left < ttl then
    call('PEXPIRE', lock, ARGV[2])
    left = ttl
  end
  local last = call('GETEX', KEYS[2], 'PX', left + 3600000)
  if last then
    local token = match(last, '^%d+$') or match(last, '^(%d+) %-$')
    if not token then
      return redis.error_reply('COORDCORRUPT the fence is not a token')
    end
    return {1, left, tonumber(token)}
  end
end
