-- Note in the hash KEYS[1] that ARGV[1] (number and channel, with a blank between) is to be told of changes, for some
-- time from now; if ARGV[2] is 0, not any more. Who is to stay is noted again before that time is over.
-- Reply: 1 if it was noted before, 0 if it was not; -1 if there are so many that it is not.
-- include shared.lua
local MOST, LIFE = 64, 16000000
local watch = call('HGET', key, ' watch')
if watch and string.sub(watch, 1, 2) ~= '\1w' then return redis.error_reply(corrupt) end
local kept, known = {}, 0
for till, who in string.gmatch(watch or '', ' (%d+) (%d+ %S+)') do
  till = math.min(till, now + LIFE)
  if who == id then
    known = 1
  elseif till > now then
    kept[#kept + 1] = string.format(' %.0f %s', till, who)
  end
end
if ARGV[2] ~= '0' then
  if #kept >= MOST then return -1 end
  kept[#kept + 1] = string.format(' %.0f %s', now + LIFE, id)
end
if kept[1] then
  call('HSET', key, ' watch', '\1w' .. table.concat(kept))
  if call('PTTL', key) < LIFE / 1000 then call('PEXPIRE', key, 2 * LIFE / 1000) end
elseif watch then
  call('HDEL', key, ' watch')
end
return known
