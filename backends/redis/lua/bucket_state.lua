-- A token bucket. KEYS[1] is a string of doubles: what is owed, last and the time
-- of its expiry; and with reservations or another burst also due, wide, blind, head, tail,
-- over and of: what the capacity of the last grant did not see, and that capacity. KEYS[1]:h
-- is a hash of reservations: field r<seq>, head <= seq < tail, has "n due id".
-- Of what is owed, debt is as much as the capacity of this limit sees.
-- ARGV[1]: rate, unit and capacity in credits; then of the first ask the least and the most
-- permits, how far ahead in microseconds, and how many ask so one after the other.
local rate, unit, cap, least, want, ahead, times, pos = unpackd('<ddddddd', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, lag, debt, owed, till, due, wide, blind, head, tail = now, 0, 0, 0, 0, 0, 0, 0, 0, 0
local state = call('GET', KEYS[1])
local bad = false
local long = false -- whether the state has its second half

if state then
  local last, over, of = -1, 0, cap
  if #state == 24 then
    owed, last, till = unpackd('<ddd', state)
  elseif #state == 80 then
    long = true
    owed, last, till, due, wide, blind, head, tail, over, of = unpackd('<dddddddddd', state)
  end
  if owed >= over and over >= 0 and owed <= MAX and last >= 0 and last <= MAX and tail >= head and tail - head <= 1024 then
    if now < last then
      at, lag = last, last - now
      if lag > ceildiv(cap, rate) + MAXLAG then
        lag, till = 0, 0
        far(KEYS[1], ceildiv(owed, rate))
      end
    end
    debt = owed - over
    if of ~= cap or not long then
      debt = owed
      if debt > cap then debt = math.min(debt, cap + rate * math.max(due - last, 0)) end
    end
    local drained = rate * (at - last)
    debt, owed = debt - drained, owed - drained
    if debt < 0 then debt = 0 end
    if owed < 0 then owed = 0 end
  else
    bad = true
  end
end

local us, dirty, reply = 0, false, nil
