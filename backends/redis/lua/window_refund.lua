-- ARGV[1] goes on with n, ARGV[2] is the id. Gives back what driver/limits.Refund does.
-- Reply: {1} if the state changed, else {0}.
if bad then return redis.error_reply(corrupt) end
if sum == 0 or head == tail then return {0} end

local names = {}
for seq = head, tail - 1 do names[#names + 1] = string.format('r%.0f', seq) end
local found
for i, r in ipairs(call('HMGET', KEYS[2], unpack(names))) do
  local g, where, id = string.match(r or '', '^(%d+) (%d+) (.*)$')
  if g and id == ARGV[2] and tonumber(where) >= first then
    -- Once per id: all its records lose their name.
    call('HSET', KEYS[2], names[i], g .. ' ' .. where .. ' ')
    found = {n = tonumber(g), index = tonumber(where)}
  end
end
if not found then return {0} end

local back = min((unpackd('<d', ARGV[1], pos)), found.n)
if found.index == index then
  back = min(back, n)
  n = n - back
else
  local _, counts = spilled(found.index, found.index)
  back = min(back, counts[1])
  if back == counts[1] then
    call('HDEL', KEYS[2], string.format('%.0f', found.index))
  else
    call('HSET', KEYS[2], string.format('%.0f', found.index), counts[1] - back)
  end
end
sum = sum - back
if sum > 0 and n == 0 then
  -- The newest sub-window says when the state may go: it must not be empty.
  local slots, counts = spilled(oldest, index - 1)
  for k = #slots, 1, -1 do
    if counts[k] > 0 then
      index, n = oldest + k - 1, counts[k]
      call('HDEL', KEYS[2], slots[k])
      break
    end
  end
end
if sum > 0 then us = (index + span + 1) * width - at + lag end
dirty, beside, reply = true, true, {1}
