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
  if long or head < tail or debt < owed then
    state = pack('<dddddddddd', owed, at, till, due, wide, blind, head, tail, owed - debt, cap)
    if head < tail then call('PEXPIRE', KEYS[1] .. ':h', ceildiv(math.max(till - now, 1), 1000)) end
  else
    state = pack('<ddd', owed, at, till)
  end
  if ms then
    call('SET', KEYS[1], state, 'PX', ms)
  else
    call('SETRANGE', KEYS[1], '0', state)
  end
end
return reply
