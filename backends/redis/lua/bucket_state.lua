-- A token bucket. KEYS[1] is a string of doubles: debt, unit, last and the time
-- of its expiry; and with reservations also due, blind, head and tail. KEYS[1]:h
-- is a hash of reservations: field r<seq>, head <= seq < tail, has "n due id".
-- ARGV[1]: rate, unit and capacity in credits; then of the first ask the least and the most
-- permits, how far ahead in microseconds, and how many ask so one after the other.
local rate, unit, cap, least, want, ahead, times, pos = unpackd('<ddddddd', ARGV[1])
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
    if u ~= unit then debt = math.min(ceildiv(debt, u) * unit, MAX) end
    if debt > cap then debt = math.min(debt, cap + rate * math.max(due - last, 0)) end
    debt = debt - rate * (at - last)
    if debt < 0 then debt = 0 end
  else
    bad = true
  end
end

local us, dirty, reply = 0, false, nil
