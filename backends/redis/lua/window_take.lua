-- ARGV[1] goes on with min, n and 0 of each ask; the other arguments are the ids
-- of the asks, which may be left out.
-- Reply, as doubles: n, 0, retry, valid of each ask; remaining, reset.
if bad then return redis.error_reply(corrupt) end

-- retryafter is how long until need permits have left.
local function retryafter(need)
  if need <= 0 then return 0 end
  local i, step = max(oldest, first), 4
  while i < index do
    local j = min(i + step - 1, index - 1)
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
  local r = call('HGET', KEYS[2], field(seq))
  return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
end

local out, dirty, beside, i = '', false, false, 1
while pos <= #ARGV[1] do
  local least, most, _
  least, most, _, pos = unpackd('<ddd', ARGV[1], pos)
  i = i + 1
  local id = ARGV[i] or ''
  local g = min(most, max(rate - sum, 0))
  local retry, valid = 0, 0
  if g > 0 and g >= least then
    valid = (current + 1) * width - at
    dirty = true
    if sum == 0 then
      if oldest ~= index or head ~= tail then call('DEL', KEYS[2]) end
      index, oldest, head, tail = current, current, 0, 0
    elseif index < current then
      call('HSET', KEYS[2], slot(index), n)
      beside = true
      index, n = current, 0
    end
    n, sum = n + g, sum + g
    while head < tail and indexof(head) < first do
      call('HDEL', KEYS[2], field(head))
      head = head + 1
    end
    if id ~= '' then
      if tail - head == 1024 then
        call('HDEL', KEYS[2], field(head))
        head = head + 1
      end
      call('HSET', KEYS[2], field(tail), string.format('%.0f %.0f ', g, current) .. id)
      tail = tail + 1
      beside = true
    end
  else
    g = 0
    retry = retryafter(sum + max(least, 1) - rate)
  end
  out = out .. pack('<dddd', g, 0, retry, valid)
end
local us = reset()
if dirty then
  if #gone > 0 then call('HDEL', KEYS[2], unpack(gone)) end
  store(us, beside)
end
return out .. pack('<dd', max(rate - sum, 0), us)
