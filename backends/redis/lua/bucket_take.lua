-- ARGV[1] goes on with min, n and max delay in microseconds of each ask; the
-- other arguments are the ids of the asks, which may be left out.
-- Reply, as doubles: n, delay, retry, valid of each ask; remaining, reset.
if bad then return redis.error_reply(corrupt) end

local out, i = '', 1
local furthest = min(div(MAX - cap, rate), MAX - at)
local g, delay, retry, valid
repeat
  local least, n, ahead
  least, n, ahead, pos = unpackd('<ddd', ARGV[1], pos)
  i = i + 1
  g, delay, retry, valid = 0, 0, 0, 0
  local room = cap + rate * min(max(ahead - lag, 0), furthest) - debt
  if room >= unit then g = min(n, div(room, unit)) end
  if g > 0 and g >= least then
    valid = div(debt, rate)
    debt = debt + g * unit
    dirty = true
    local wait = 0
    if debt > cap then
      wait = ceildiv(debt - cap, rate)
      delay, valid = wait + lag, max(valid, wait)
    end
    if wait > 0 or head < tail then
      local function field(seq) return string.format('r%.0f', seq) end
      -- dueof is when the reservation in field seq is due, 0 if it is not there.
      local function dueof(seq)
        local r = call('HGET', KEYS[2], field(seq))
        return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
      end
      while head < tail and dueof(head) <= at do
        call('HDEL', KEYS[2], field(head))
        head = head + 1
      end
      if wait > 0 then
        due = max(due, at + wait)
        if tail - head == 1024 then
          blind = max(blind, dueof(head))
          call('HDEL', KEYS[2], field(head))
          head = head + 1
        end
        call('HSET', KEYS[2], field(tail), string.format('%.0f %.0f ', g, at + wait) .. (ARGV[i] or ''))
        tail = tail + 1
      end
    end
  else
    g = 0
    local missing = debt - cap + max(least, 1) * unit
    if missing > 0 then
      retry = max(ceildiv(missing, rate) - min(ahead, furthest) + lag, 0)
    end
  end
  local last = pos > #ARGV[1]
  if not last then out = out .. pack('<dddd', g, delay, retry, valid) end
until last

if debt > 0 then us = ceildiv(debt, rate) + lag end
reply = pack('<dddddd', g, delay, retry, valid, div(max(cap - debt, 0), unit), us)
if out ~= '' then reply = out .. reply end
