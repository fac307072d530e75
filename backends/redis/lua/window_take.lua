-- ARGV from 4 on: min, n, 0 and id of each ask.
-- Reply: n, 0, retry, valid of each ask; remaining, reset.
if bad then return redis.error_reply(corrupt) end

-- retryafter is how long until need permits have left.
local function retryafter(need)
  if need <= 0 then return 0 end
  local i, step = math.max(oldest, first), 4
  while i < index do
    local j = math.min(i + step - 1, index - 1)
    local _, counts = spilled(i, j)
    for k = 1, #counts do
      need = need - counts[k]
      if need <= 0 then return (i + k - 1 + span + 1) * width - at + lag end
    end
    i, step = j + 1, step * 4
  end
  return (index + span + 1) * width - at + lag
end

local function field(seq) return string.format('r%.0f', seq) end

-- indexof is the sub-window of the grant in field seq, 0 if it is not there.
local function indexof(seq)
  local r = redis.call('HGET', KEYS[2], field(seq))
  return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
end

local out, dirty, touched = {}, false, false
for i = 4, #ARGV, 4 do
  local least, id = tonumber(ARGV[i]), ARGV[i + 3]
  local g = math.min(tonumber(ARGV[i + 1]), math.max(rate - sum, 0))
  local retry, valid = 0, 0
  if g > 0 and g >= least then
    valid = (current + 1) * width - at
    dirty = true
    if sum == 0 then
      if oldest ~= index or head ~= tail then redis.call('DEL', KEYS[2]) end
      index, oldest, head, tail = current, current, 0, 0
    elseif index < current then
      redis.call('HSET', KEYS[2], slot(index), n)
      touched = true
      index, n = current, 0
    end
    n, sum = n + g, sum + g
    while head < tail and indexof(head) < first do
      redis.call('HDEL', KEYS[2], field(head))
      head = head + 1
    end
    if id ~= '' then
      if tail - head == 1024 then
        redis.call('HDEL', KEYS[2], field(head))
        head = head + 1
      end
      redis.call('HSET', KEYS[2], field(tail), string.format('%.0f %.0f ', g, current) .. id)
      tail = tail + 1
      touched = true
    end
  else
    g = 0
    retry = retryafter(sum + math.max(least, 1) - rate)
  end
  local k = #out
  out[k + 1], out[k + 2], out[k + 3], out[k + 4] = g, 0, retry, valid
end
if dirty then
  local ms = store()
  if #gone > 0 then redis.call('HDEL', KEYS[2], unpack(gone)) end
  if touched then redis.call('PEXPIRE', KEYS[2], ms) end
end
local k = #out
out[k + 1], out[k + 2] = math.max(rate - sum, 0), reset()
return out
