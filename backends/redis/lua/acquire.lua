-- Take the lock KEYS[1] for ARGV[1] (id) for ARGV[2] (ms), and count the
-- fencing token in KEYS[2] for ARGV[3] (ms). ARGV[4] is "", or a space and the
-- channel on which the holder hears of fair waiters, which is put behind the token.
-- Reply: {1, ms of the lease, token}, and 1 if the holder would not hear of a fair
-- waiter, or {0, ms left of the holder's lease}.
--
-- Where others wait, what follows this file decides. The usual case, a free key,
-- takes four calls: numbers stay the strings that they come as, because to print a
-- number costs more than a call.
if redis.pcall('EXISTS', KEYS[1] .. ':queue') ~= 1 then
  local call, lock, fence, ttl, token = redis.call, KEYS[1], KEYS[2], ARGV[2], nil
  local taken = call('SET', lock, ARGV[1], 'NX', 'PX', ttl)

  if not taken then
    if call('GET', lock) ~= ARGV[1] then
      return {0, call('PTTL', lock)}
    end
    -- The same attempt again: it never shortens the lease, and has its token.
    token = call('GET', fence)
    local bare = token and string.match(token, '^(%d+)$')
    if token then token = bare or string.match(token, '^(%d+) %S+$') or '' end
    if token == '' then
      return redis.error_reply('COORDCORRUPT the fence is not a number')
    end
    if call('PTTL', lock) < tonumber(ttl) then
      call('PEXPIRE', lock, ttl)
    else
      ttl = call('PTTL', lock)
    end
    if token then
      call('PEXPIRE', fence, ttl + 3600000)
      return {1, tonumber(ttl), tonumber(token), bare and 1 or 0}
    end
  end

  -- A new hold, or a repeated attempt whose fence was deleted meanwhile. The
  -- clock keeps tokens rising when the counter is gone; the counter outlives the
  -- lease by an hour, and a clock that steps back by less than that does no harm.
  local t = call('TIME')
  token = t[1] .. string.sub('00000' .. t[2], -6)
  local last = redis.pcall('SET', fence, token .. ARGV[4], 'PX', ARGV[3], 'GET')
  if last then
    if type(last) == 'table' then -- an error: something else is there
      if taken then call('DEL', lock) end
      return last
    end
    local n = string.match(last, '^(%d+)$') or string.match(last, '^(%d+) %S+$')
    if not n then
      call('SET', fence, last)
      if taken then call('DEL', lock) end
      return redis.error_reply('COORDCORRUPT the fence is not a number')
    end
    if tonumber(n) >= tonumber(token) then
      token = string.format('%.0f', n + 1)
      call('SET', fence, token .. ARGV[4], 'PX', ARGV[3])
    end
  end
  return {1, tonumber(ttl), tonumber(token)}
end
