-- Take the lock KEYS[1] for ARGV[1] (id) for ARGV[2] (ms), and count the fencing
-- token in KEYS[2]. ARGV[4] (ms) is how long the fence is to live. It may be left out, with the empty ARGV[3],
-- where two hours are enough.
-- Reply: the token of a new hold; {1, ms of the lease, token} of one that ARGV[1] has already; or
-- {0, ms left of the holder's lease}, with the value of the lock where it was read.
--
-- The usual case, a free key that nobody waits for, takes three calls. A queue leaves a
-- mark behind the token, see wait.lua: a token without a mark says that there is no queue.
-- Numbers stay the strings that they come as, because to print one costs more than a call, to
-- match a pattern as much as a call, and to reply with a table half of one. wait.lua, which is
-- included at the end, decides about a key for which others wait, about the same attempt again, and about a
-- token that is none, or is ahead of the clock.
local mine = '1 ' .. ARGV[1] -- the version of what is stored, and the holder
if redis.call('SET', KEYS[1], mine, 'NX', 'PX', ARGV[2]) then
  -- The clock keeps tokens rising when the counter is gone, or when what was counted
  -- last is, after a failover; the counter outlives the lease by an hour, and a clock that
  -- steps back by less than that does no harm.
  local t = redis.call('TIME')
  local token = #t[2] == 6 and t[1] .. t[2] or t[1] .. string.sub('00000' .. t[2], -6)
  local life = ARGV[4] or '7200000'
  local last = redis.pcall('SET', KEYS[2], token, 'PX', life, 'GET')
  local n, count = tonumber(last), tonumber(token)
  local free = n and n >= 1 and n < count
  if not free and type(last) ~= 'table' then -- no token, or one with a mark
    n = not last and 0 or tonumber(string.match(last, '^(%d+) %-$'))
    free = n and n < count and redis.pcall('EXISTS', KEYS[1] .. ':queue') ~= 1
  end
  if free then return count end
  redis.call('DEL', KEYS[1]) -- as if nothing had been done
  if not last then
    redis.call('DEL', KEYS[2])
  elseif type(last) ~= 'table' then -- which is an error: something else is there
    redis.call('SET', KEYS[2], last, 'PX', life)
  end
else
  local holder = redis.call('GET', KEYS[1])
  if holder ~= mine then
    if string.sub(holder, 1, 2) ~= '1 ' then return redis.error_reply('COORDCORRUPT the lock has a value of another version') end
    return {0, redis.call('PTTL', KEYS[1]), holder}
  end
end
-- include wait.lua
