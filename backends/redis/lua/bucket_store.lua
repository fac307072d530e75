-- See common.lua.
if dirty and us == 0 then
  call('DEL', KEYS[1], KEYS[2])
elseif dirty then
  local ms
  if now + us > till then
    ms = ceildiv(us, 500) + 1000
    till = now + ms * 1000
  end
  if long or head < tail then
    call('SETRANGE', KEYS[1], '0', pack('<dddddddd', debt, unit, at, till, due, blind, head, tail))
    if head < tail then call('PEXPIRE', KEYS[2], ceildiv(max(till - now, 1), 1000)) end
  else
    call('SETRANGE', KEYS[1], '0', pack('<dddd', debt, unit, at, till))
  end
  if ms then call('PEXPIRE', KEYS[1], ms) end
end
return reply
