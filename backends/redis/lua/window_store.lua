-- See common.lua.
if dirty and us == 0 then
  call('DEL', KEYS[1], KEYS[2])
elseif dirty then
  if gone and #gone > 0 then call('HDEL', KEYS[2], unpack(gone)) end
  local ms
  if now + us > till then
    ms = ceildiv(us, 500) + 1000
    till = now + ms * 1000
  end
  if long or head < tail then
    call('SETRANGE', KEYS[1], '0', pack('<dddddddd', at, sum, index, n, oldest, till, head, tail))
  else
    call('SETRANGE', KEYS[1], '0', pack('<dddddd', at, sum, index, n, oldest, till))
  end
  if ms then call('PEXPIRE', KEYS[1], ms) end
  if beside or ms and (oldest < index or head < tail) then
    call('PEXPIRE', KEYS[2], ceildiv(max(till - now, 1), 1000))
  end
end
return reply
