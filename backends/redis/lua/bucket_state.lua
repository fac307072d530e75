-- A token bucket. KEYS[1] is a string of doubles: debt, unit, last and the time
-- of its expiry; and with reservations also due, blind, head and tail. KEYS[2]
-- is a hash of reservations: field r<seq>, head <= seq < tail, has "n due id".
-- ARGV[1]: rate, unit and capacity in credits, and what follows them.
local rate, unit, cap, pos = unpackd('<ddd', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, lag, debt, till, due, blind, head, tail = now, 0, 0, 0, 0, 0, 0, 0
local state = call('GET', KEYS[1])
local bad = false
local long = false -- whether the state has its second half

if state then
  local u, last = 0, 0
  if #state == 32 then
    debt, u, last, till = unpackd('<dddd', state)
  elseif #state == 64 then
    long = true
    debt, u, last, till, due, blind, head, tail = unpackd('<dddddddd', state)
  end
  if u >= 1 and debt >= 0 and debt <= MAX and last >= 0 and last <= MAX and tail >= head and tail - head <= 1024 then
    if now < last then at, lag = last, last - now end
    if u ~= unit then debt = mulmax(ceildiv(debt, u), unit) end
    if debt > cap then debt = min(debt, cap + mulmax(rate, max(due - last, 0))) end
    if at - last >= ceildiv(debt, rate) then debt = 0 else debt = debt - rate * (at - last) end
  else
    bad = true
  end
end

local us, dirty, reply = 0, false, nil
