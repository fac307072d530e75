-- Note in the hash KEYS[1] that ARGV[1] (number and channel, with a blank between) is to be told of changes, for some
-- time from now; if ARGV[2] is not true, not any more. Who is to stay is noted again before that time is over. Of more than
-- MOST the oldest are left out. An entry for longer than LIFE was made before the clock was set back.
-- Reply: 1.
-- include shared.lua
local MOST, LIFE = 64, 16000000
local watch, kept = call('HGET', key, ' watch'), {}
if watch and byte(watch) ~= 2 then error(corrupt, 0) end
for entry, till, who in string.gmatch(watch or '', '( (%d+) (%d+ %S+))') do
  till = tonumber(till)
  if who ~= id and till > now and till <= now + LIFE then kept[#kept + 1] = entry end
end
if ARGV[2] == 'true' then
  if #kept == MOST then table.remove(kept, 1) end
  kept[#kept + 1] = string.format(' %.0f %s', now + LIFE, id)
end
if kept[1] then
  call('HSET', key, ' watch', '\2' .. table.concat(kept))
  if call('PTTL', key) < LIFE / 1000 then call('PEXPIRE', key, 2 * LIFE / 1000) end
elseif watch then
  call('HDEL', key, ' watch')
end
return 1
