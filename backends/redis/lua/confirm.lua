-- The usual case of a waiter that was told: KEYS[1] is its own, ARGV[1], and now for
-- ARGV[2] (ms). What follows this file decides all else, and says what is replied.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  local left, ttl = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
  if left < ttl then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    left = ttl
  end
  local last = redis.call('GETEX', KEYS[2], 'PX', left + 3600000)
  if last then
    local token = string.match(last, '^%d+$') or string.match(last, '^(%d+) %-$')
    if not token then
      return redis.error_reply('COORDCORRUPT the fence is not a token')
    end
    return {1, left, tonumber(token)}
  end
end
