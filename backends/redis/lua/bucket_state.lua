-- A token bucket. KEYS[1] is a string of doubles: debt, unit, last and the time
-- of its expiry; and with reservations also due, blind, head and tail. KEYS[2]
-- is a hash of reservations: field r<seq>, head <= seq < tail, has "n due id".
-- ARGV[1]: rate, unit and capacity in credits, and what follows them.
local rate, unit, cap, pos = unpackd('<ddd', ARGV[1])
local now = clock()
local at, lag, debt, till, due, blind, head, tail = now, 0, 0, 0, 0, 0, 0, 0
local state = call('GET', KEYS[1])
local bad = false
local long = false -- whether the state has its second half

local function drain(d, us)
  if us >= ceildiv(d, rate) then return 0 end
  return d - rate * us
end

-- beyond is base plus the refill of us microseconds.
local function beyond(base, us) return min(base + mulmax(rate, us), MAX) end

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
    if debt > cap then debt = min(debt, beyond(cap, max(due - last, 0))) end
    debt = drain(debt, at - last)
  else
    bad = true
  end
end

-- reset is how long until the bucket is full.
local function reset()
  if debt == 0 then return 0 end
  return ceildiv(debt, rate) + lag
end

-- store writes the state, of use for us.
local function store(us)
  local ms
  if now + us > till then
    ms = expiry(us)
    till = now + ms * 1000
  end
  if long or head < tail then
    call('SETRANGE', KEYS[1], '0', pack('<dddddddd', debt, unit, at, till, due, blind, head, tail))
    if head < tail then call('PEXPIRE', KEYS[2], ceildiv(max(till - now, 1), 1000)) end
  else
    call('SETRANGE', KEYS[1], '0', pack('<dddd', debt, unit, at, till))
  end
  if ms then call('PEXPIRE', KEYS[1], ms) end
end
