-- ARGV[1] goes on with what the first ask has, of each that follows; the other arguments are
-- the ids of the asks, which may be left out. More than one ask so only for all or nothing,
-- at once and without an id: as many as there are permits for are granted.
-- Reply, as doubles: n, delay, retry, valid of each ask; remaining, reset. Of several, n is
-- what they have together, and retry is of those who have nothing. Of what is granted at once,
-- valid is the debt before it, in credits, for the client to divide; -1: they are to be spent at once.
if bad then return redis.error_reply(corrupt) end

local out, i = nil, 1
local g, delay, retry, valid
while true do
  i = i + 1
  g, delay, retry, valid = 0, 0, 0, 0
  local room = cap - debt
  if ahead > 0 then
    local furthest = math.min((MAX - cap - (MAX - cap) % rate) / rate, MAX - at)
    if ahead > lag then room = room + rate * math.min(ahead - lag, furthest) end
    ahead = math.min(ahead, furthest)
  end
  if want * times * unit <= room then
    g = want * times
  elseif times > 1 then
    if want * unit <= room then g = (room - room % (want * unit)) / unit end
  elseif room >= unit then
    g = (room - room % unit) / unit
  end
  if g > 0 and g >= least then
    if due <= at then
      valid, wide = debt, owed
    else
      valid = -1 -- a reservation may be given back, and the debt drains sooner
    end
    wide = math.max(wide, math.min(cap + owed - debt, MAX))
    debt, owed = debt + g * unit, owed + g * unit
    if owed > MAX then owed = debt > MAX and debt or MAX end
    dirty = true
    local wait = 0
    if debt > cap then
      wait = ceildiv(debt - cap, rate)
      delay, valid = wait + lag, math.max((valid - valid % rate) / rate, wait)
    end
    if wait > 0 or head < tail then
      local function field(seq) return string.format('r%.0f', seq) end
      -- dueof is when the reservation in field seq is due, 0 if it is not there.
      local function dueof(seq)
        local r = call('HGET', KEYS[1] .. ':h', field(seq))
        return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
      end
      while head < tail and dueof(head) <= at do
        call('HDEL', KEYS[1] .. ':h', field(head))
        head = head + 1
      end
      if wait > 0 then
        due = math.max(due, at + wait)
        if tail - head == 1024 then
          blind = math.max(blind, dueof(head))
          call('HDEL', KEYS[1] .. ':h', field(head))
          head = head + 1
        end
        call('HSET', KEYS[1] .. ':h', field(tail), string.format('%.0f %.0f ', g, at + wait) .. (ARGV[i] or ''))
        tail = tail + 1
      end
    end
  else
    g = 0
  end
  if g == 0 or times > 1 and g < want * times then
    local missing = debt - cap + math.max(least, 1) * unit
    if missing > 0 then
      retry = math.max(ceildiv(missing, rate) - ahead + lag, 0)
    end
  end
  if pos > #ARGV[1] then break end
  out = (out or '') .. pack('<dddd', g, delay, retry, valid)
  least, want, ahead, times, pos = unpackd('<dddd', ARGV[1], pos)
end

local left = cap - debt
if left < 0 then left = 0 end
local reset = 0
if debt > 0 then reset = ceildiv(debt, rate) + lag end
if owed > 0 then us = ceildiv(owed, rate) + lag end
reply = pack('<dddddd', g, delay, retry, valid, (left - left % unit) / unit, reset)
if out then reply = out .. reply end
