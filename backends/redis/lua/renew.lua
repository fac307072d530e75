-- Extend the hold of ARGV[1] (id) on KEYS[1] to ARGV[2] (ms) from now, and the
-- life of its fence KEYS[2] with it. Never creates, never shortens.
-- Reply: {1, ms of the lease, token}, or {0} if it does not hold.
if redis.call('GET', KEYS[1]) ~= '1 ' .. ARGV[1] then
  return {0}
end
local ttl, left = tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])
if left < ttl then
  redis.call('PEXPIRE', KEYS[1], ttl)
  left = ttl
end
local token = redis.call('GETEX', KEYS[2], 'PX', left + 3600000)
if not token then
  -- Deleted under a live hold: seeded again, as a new hold would, and marked if there is
  -- a queue, see wait.lua.
  local t = redis.call('TIME')
  token = t[1] .. string.sub('00000' .. t[2], -6)
  local behind = redis.pcall('EXISTS', KEYS[1] .. ':queue') == 1 and ' -' or ''
  redis.call('SET', KEYS[2], token .. behind, 'PX', left + 3600000)
end
return {1, left, tonumber(string.match(token, '^%d+')) or 0}
