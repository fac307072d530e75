-- ARGV[4], ARGV[5]: id and n. Gives back what driver/limits.Refund does.
-- Reply: {1} if the state changed, else {0}.
if bad then return redis.error_reply(corrupt) end
if sum == 0 or head == tail then return {0} end

local names = {}
for seq = head, tail - 1 do names[#names + 1] = string.format('r%.0f', seq) end
local found
for i, r in ipairs(redis.call('HMGET', KEYS[2], unpack(names))) do
  local g, where, id = string.match(r or '', '^(%d+) (%d+) (.*)$')
  if g and id == ARGV[4] then
    -- Once per id: all its records lose their name.
    redis.call('HSET', KEYS[2], names[i], g .. ' ' .. where .. ' ')
    if tonumber(where) >= first then found = {n = tonumber(g), index = tonumber(where)} end
  end
end
if not found then return {0} end

local back = math.min(tonumber(ARGV[5]), found.n)
if found.index == index then
  back = math.min(back, n)
  n = n - back
else
  local _, counts = spilled(found.index, found.index)
  back = math.min(back, counts[1])
  if back == counts[1] then
    redis.call('HDEL', KEYS[2], slot(found.index))
  else
    redis.call('HSET', KEYS[2], slot(found.index), counts[1] - back)
  end
end
sum = sum - back
if sum == 0 then
  redis.call('DEL', KEYS[1], KEYS[2])
  return {1}
end
if n == 0 then
  -- The newest sub-window says when the state may go: it must not be empty.
  local slots, counts = spilled(oldest, index - 1)
  for k = #slots, 1, -1 do
    if counts[k] > 0 then
      index, n = oldest + k - 1, counts[k]
      redis.call('HDEL', KEYS[2], slots[k])
      break
    end
  end
end
if #gone > 0 then redis.call('HDEL', KEYS[2], unpack(gone)) end
redis.call('PEXPIRE', KEYS[2], store())
return {1}
