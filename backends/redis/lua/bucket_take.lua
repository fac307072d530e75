-- ARGV from 4 on: min, n, max delay in microseconds and id of each ask.
-- Reply: n, delay, retry, valid of each ask; remaining, reset.
if bad then return redis.error_reply(corrupt) end

local function field(seq) return string.format('r%.0f', seq) end

-- dueof is when the reservation in field seq is due, 0 if it is not there.
local function dueof(seq)
  local r = redis.call('HGET', KEYS[2], field(seq))
  return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
end

local function record(id, n, when)
  due = math.max(due, when)
  if tail - head == 1024 then
    blind = math.max(blind, dueof(head))
    redis.call('HDEL', KEYS[2], field(head))
    head = head + 1
  end
  redis.call('HSET', KEYS[2], field(tail), string.format('%.0f %.0f ', n, when) .. id)
  tail = tail + 1
end

local out, dirty = {}, false
local furthest = math.min(div(MAX - cap, rate), MAX - at)
for i = 4, #ARGV, 4 do
  local least, n, ahead = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local room = cap + rate * math.min(math.max(ahead - lag, 0), furthest) - debt
  local g = 0
  if room >= unit then g = math.min(n, div(room, unit)) end
  local delay, retry, valid = 0, 0, 0
  if g > 0 and g >= least then
    valid = div(debt, rate)
    debt = debt + g * unit
    dirty = true
    while head < tail and dueof(head) <= at do
      redis.call('HDEL', KEYS[2], field(head))
      head = head + 1
    end
    if debt > cap then
      local wait = ceildiv(debt - cap, rate)
      delay, valid = wait + lag, math.max(valid, wait)
      record(ARGV[i + 3], g, at + wait)
    end
  else
    g = 0
    local missing = debt - cap + math.max(least, 1) * unit
    if missing > 0 then
      retry = math.max(ceildiv(missing, rate) - math.min(ahead, furthest) + lag, 0)
    end
  end
  local k = #out
  out[k + 1], out[k + 2], out[k + 3], out[k + 4] = g, delay, retry, valid
end
if dirty then store() end
local k = #out
out[k + 1], out[k + 2] = div(math.max(cap - debt, 0), unit), reset()
return out
