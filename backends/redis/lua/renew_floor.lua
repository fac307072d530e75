-- Extend the hold of ARGV[1] (id) on KEYS[1] to ARGV[2] (ms) from now, and raise its token in KEYS[2] to ARGV[3] if it
-- is less. Never creates, never shortens.
-- Reply: {1, ms of the lease, token}, or {0} if it does not hold.
local call, lock, fence = redis.call, KEYS[1], KEYS[2]
if call('GET', lock) ~= '1 ' .. ARGV[1] then return {0} end
local last, mark = call('GET', fence), ''
local token = 0
if last then
  token, mark = string.match(last, '^(%d+)( ?%-?)$')
  token = tonumber(token)
  if not token then return redis.error_reply('COORDCORRUPT the fence is not a token') end
end
token = math.max(token, tonumber(ARGV[3]))
local left = math.max(call('PTTL', lock), tonumber(ARGV[2]))
call('PEXPIRE', lock, left)
call('SET', fence, string.format('%.0f', token) .. mark, 'PX', left + 3600000)
return {1, left, token}
