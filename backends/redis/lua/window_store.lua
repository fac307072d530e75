-- See common.lua.
if dirty and us == 0 then
  call('DEL', KEYS[1] .. ':h')
  call('DEL', KEYS[1])
elseif dirty then
  local ms
  if now + us > till then
    ms = ceildiv(us, 500) + 1000
    till = now + ms * 1000
  end
  local value
  if begin == 57 or head < tail then
    value = pack('<ddddddd', at, sum, index, n, -till, head, tail)
  else
    value = pack('<ddddd', at, sum, index, n, till)
  end
  if not older and (ms or #value + 1 ~= begin) then
    if #state == 128 then state = call('GET', KEYS[1]) end
    older = string.sub(state, begin)
  end
  if older then value = value .. older end
  if ms then
    call('SET', KEYS[1], value, 'PX', ms)
  elseif older and #value < #state then
    call('SET', KEYS[1], value, 'KEEPTTL')
  else
    call('SETRANGE', KEYS[1], '0', value)
  end
  if head < tail and (beside or ms) then
    call('PEXPIRE', KEYS[1] .. ':h', ceildiv(math.max(till - now, 1), 1000))
  end
end
return reply
