-- ARGV[1] asks for as many as are given back, ARGV[2] is the id. Gives back what driver/limits.Refund does.
-- Reply: {1} if the state changed, else {0}.
if bad then return redis.error_reply(corrupt) end
if sum == 0 or head == tail then return {0} end

local names = {}
for seq = head, tail - 1 do names[#names + 1] = string.format('r%.0f', seq) end
local found
for i, r in ipairs(call('HMGET', KEYS[1] .. ':h', unpack(names))) do
  local g, where, id = string.match(r or '', '^(%d+) (%d+) (.*)$')
  if g and id == ARGV[2] and tonumber(where) >= first then
    -- Once per id: all its records lose their name.
    call('HSET', KEYS[1] .. ':h', names[i], g .. ' ' .. where .. ' ')
    found = {n = tonumber(g), index = tonumber(where)}
  end
end
if not found then return {0} end

if #state == 128 then state = call('GET', KEYS[1]) end
older = string.sub(state, from)
local back = math.min(want, found.n)
if found.index == index then
  back = math.min(back, n)
  n = n - back
else
  local most = 0
  for p = 1, #older, 8 do
    local slot = unpackd('<d', older, p)
    if index - (index - slot) % 128 == found.index then
      most = (slot - slot % 128) / 128
      back = math.min(back, most)
      slot = back < most and pack('<d', slot - back * 128) or ''
      older = string.sub(older, 1, p - 1) .. slot .. string.sub(older, p + 8)
      break
    end
  end
  back = math.min(back, most)
end
sum = sum - back
if sum > 0 and n == 0 and older ~= '' then
  -- The newest sub-window says when the state may go: it must not be empty.
  local slot = unpackd('<d', older, #older - 7)
  index, n = index - (index - slot) % 128, (slot - slot % 128) / 128
  older = string.sub(older, 1, -9)
end
if sum > 0 then us = whole > 0 and whole or (index + span + 1) * width - at + lag end
dirty, beside, reply = true, true, {1}
