-- Take the lock KEYS[1] of a member of a quorum for ARGV[1] (id) for ARGV[2] (ms). The fencing token in KEYS[2] becomes
-- greater than the last one, and at least ARGV[3], as far as that is within ARGV[4] microseconds of the clock.
-- Reply: {1, ms of the lease, token, seconds that the server has run at least, its run id}, also if ARGV[1] has the lock
-- already; or {0, ms left of the holder's lease}.
local call, lock, fence, mine = redis.call, KEYS[1], KEYS[2], '1 ' .. ARGV[1]
local holder = call('GET', lock)
if holder and holder ~= mine then
  if string.sub(holder, 1, 2) ~= '1 ' then return redis.error_reply('COORDCORRUPT the lock has a value of another version') end
  return {0, call('PTTL', lock)}
end
local about = call('INFO', 'server')
local run, age = string.match(about, 'run_id:(%w+)'), string.match(about, 'uptime_in_seconds:(%d+)')
if not run or not age then return redis.error_reply('COORDINVALID the server does not tell its run_id and uptime_in_seconds') end
local last, mark = call('GET', fence), ''
local token = 0
if last then
  token, mark = string.match(last, '^(%d+)( ?%-?)$')
  token = tonumber(token)
  if not token or token >= 9007199254740991 then return redis.error_reply('COORDCORRUPT the fence is not a token') end
end
local ttl = tonumber(ARGV[2])
local left = holder and math.max(call('PTTL', lock), ttl) or ttl
if not holder or not last then
  local t, range = call('TIME'), tonumber(ARGV[4])
  local now = t[1] * 1000000 + t[2]
  token = math.max(token + 1, math.min(math.max(tonumber(ARGV[3]), now - range), now + range))
end
call('SET', fence, string.format('%.0f', token) .. mark, 'PX', left + 3600000)
call('SET', lock, mine, 'PX', left)
return {1, left, token, math.max(0, tonumber(age) - 1), run} -- its difference of whole seconds may be one too much
