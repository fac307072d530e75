-- Take the lock KEYS[1] of a member of a quorum for ARGV[1] (id) for ARGV[2] (ms). The fencing token in KEYS[2] becomes
-- greater than the last one, and at least ARGV[3], as far as that is within ARGV[4] microseconds of the clock.
-- Reply: {1, ms of the lease, token, seconds for which the server has forgotten nothing at least, the name of that run},
-- also if ARGV[1] has the lock already; or {0, ms left of the holder's lease, value of the lock}.
--
-- A run ends when the server restarts, which its run id tells, or gets other keys, which loses "coord:quorum". That has the
-- name of the run: the run id, and the time in microseconds at which it began.
local call, lock, fence, mine = redis.call, KEYS[1], KEYS[2], '1 ' .. ARGV[1]
local holder = call('GET', lock)
if holder and holder ~= mine then
  if string.sub(holder, 1, 2) ~= '1 ' then return redis.error_reply('COORDCORRUPT the lock has a value of another version') end
  return {0, call('PTTL', lock), holder}
end
local about = call('INFO', 'server')
-- A plain search takes a fifth of what a pattern does.
local function find(name, pattern)
  local _, at = string.find(about, name, 1, true)
  return at and string.match(about, pattern, at + 1)
end
local run, age = find('run_id:', '^%w+'), find('uptime_in_seconds:', '^%d+')
if not run or not age then return redis.error_reply('COORDINVALID the server does not tell its run_id and uptime_in_seconds') end
age = math.max(0, age - 1) -- it is a difference of whole seconds, which may be one too much
local t, name = call('TIME'), call('GET', 'coord:quorum') or ''
local now = t[1] * 1000000 + t[2]
local own, began = string.match(name, '^(%w+)%.(%d+)$')
local kept = own == run and now - began or -1
if kept < 0 then -- new, or it lost its keys, or its clock was set back
  local stats = call('INFO', 'commandstats')
  -- What may have lost them, or the count of that, which Redis before 7 has as CONFIG.
  for _, lost in ipairs({'_flush', '_swapdb:', '_replicaof:', '_slaveof:', '_config:', '_config|resetstat:'}) do
    if string.find(stats, 'cmdstat' .. lost, 1, true) then age = 0 end
  end
  kept = age * 1000000
  name = string.format('%s.%.0f', run, now - kept)
  call('SET', 'coord:quorum', name)
end
age = math.min(age, math.floor(kept / 1000000))
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
  local range = tonumber(ARGV[4])
  token = math.max(token + 1, math.min(math.max(tonumber(ARGV[3]), now - range), now + range))
end
call('SET', fence, string.format('%.0f', token) .. mark, 'PX', left + 3600000)
call('SET', lock, mine, 'PX', left)
return {1, left, token, age, name}
