-- ARGV[1] goes on with min, n and max delay in microseconds of each ask; the
-- other arguments are the ids of the asks, which may be left out.
-- Reply, as doubles: n, delay, retry, valid of each ask; remaining, reset.
if bad then return redis.error_reply(corrupt) end

local function field(seq) return string.format('r%.0f', seq) end

-- dueof is when the reservation in field seq is due, 0 if it is not there.
local function dueof(seq)
  local r = call('HGET', KEYS[2], field(seq))
  return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
end

local function record(id, n, when)
  due = max(due, when)
  if tail - head == 1024 then
    blind = max(blind, dueof(head))
    call('HDEL', KEYS[2], field(head))
    head = head + 1
  end
  call('HSET', KEYS[2], field(tail), string.format('%.0f %.0f ', n, when) .. id)
  tail = tail + 1
end

local out, dirty, i = '', false, 1
local furthest = min(div(MAX - cap, rate), MAX - at)
while pos <= #ARGV[1] do
  local least, n, ahead
  least, n, ahead, pos = unpackd('<ddd', ARGV[1], pos)
  i = i + 1
  local room = cap + rate * min(max(ahead - lag, 0), furthest) - debt
  local g, delay, retry, valid = 0, 0, 0, 0
  if room >= unit then g = min(n, div(room, unit)) end
  if g > 0 and g >= least then
    valid = div(debt, rate)
    debt = debt + g * unit
    dirty = true
    while head < tail and dueof(head) <= at do
      call('HDEL', KEYS[2], field(head))
      head = head + 1
    end
    if debt > cap then
      local wait = ceildiv(debt - cap, rate)
      delay, valid = wait + lag, max(valid, wait)
      record(ARGV[i] or '', g, at + wait)
    end
  else
    g = 0
    local missing = debt - cap + max(least, 1) * unit
    if missing > 0 then
      retry = max(ceildiv(missing, rate) - min(ahead, furthest) + lag, 0)
    end
  end
  out = out .. pack('<dddd', g, delay, retry, valid)
end
local us = reset()
if dirty then store(us) end
return out .. pack('<dd', div(max(cap - debt, 0), unit), us)
