-- The usual case of a waiter that was told: KEYS[1] is its own, ARGV[1], and now for
-- ARGV[2] (ms). What follows this file decides all else, and says what is replied. A fence
-- without a channel, or with "-" for one, says that the holder would not be told of fair waiters.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  local left, ttl = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
  if left < ttl then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    left = ttl
  end
  local last = redis.call('GETEX', KEYS[2], 'PX', left + 3600000)
  if last then
    local bare = string.match(last, '^(%d+)$') or string.match(last, '^(%d+) %-$')
    local token = bare or string.match(last, '^(%d+) %S+$')
    if not token then
      return redis.error_reply('COORDCORRUPT the fence is not a token')
    end
    local fair = bare or redis.pcall('HEXISTS', KEYS[1] .. ':waiters', ' fair') ~= 0
    return {1, left, tonumber(token), fair and 1 or 0}
  end
end
