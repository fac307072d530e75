-- The usual case of a waiter that was told: KEYS[1] is its own, ARGV[1], and now for
-- ARGV[2] (ms). What follows this file decides all else, and says what is replied.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  local left, ttl = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
  if left < ttl then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    left = ttl
  end
  local token = redis.call('GETEX', KEYS[2], 'PX', left + 3600000)
  if token then token = string.match(token, '^(%d+)$') or string.match(token, '^(%d+) %S+$') or '' end
  if token == '' then
    return redis.error_reply('COORDCORRUPT the fence is not a number')
  end
  if token then
    return {1, left, tonumber(token), redis.call('EXISTS', KEYS[1] .. ':fair')}
  end
end
