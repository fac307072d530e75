-- Take the lock KEYS[1] for ARGV[1] (id) for ARGV[2] (ms), and count the
-- fencing token in KEYS[2].
-- Reply: {1, ms of the lease, token}, or {0, ms left of the holder's lease}.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
local last = redis.call('GET', KEYS[2])
if last and not string.find(last, '^%d+$') then
  return redis.error_reply('COORDCORRUPT the fence is not a number')
end
local ttl = ARGV[2]
local token = tonumber(last)
if holder then
  -- The same attempt again: it never shortens the lease.
  ttl = math.max(tonumber(ttl), redis.call('PTTL', KEYS[1]))
end
if not (holder and token) then
  -- A new hold, or a repeated attempt whose fence was deleted meanwhile. The
  -- clock keeps tokens rising when the counter is gone.
  local t = redis.call('TIME')
  token = math.max((token or 0) + 1, t[1] * 1000000 + t[2])
end
-- The fence outlives the lease by an hour, and a clock that steps back by less
-- than that does no harm.
redis.call('SET', KEYS[2], token, 'PX', ttl + 3600000)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
return {1, tonumber(ttl), token}
