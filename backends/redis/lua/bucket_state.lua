-- A token bucket. KEYS[1] is a string, "debt unit last" in the usual case, or
-- "debt unit last due blind head tail" with reservations. KEYS[2] is a hash of
-- reservations: field r<seq>, head <= seq < tail, has "n due id".
-- ARGV: rate, unit, capacity in credits, ...
local rate, unit, cap = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = clock()
local at, lag, debt, due, blind, head, tail = now, 0, 0, 0, 0, 0, 0
local state = redis.call('GET', KEYS[1])
local bad = false

local function drain(d, us)
  if us >= ceildiv(d, rate) then return 0 end
  return d - rate * us
end

-- beyond is base plus the refill of us microseconds.
local function beyond(base, us) return math.min(base + mulmax(rate, us), MAX) end

if state then
  local d, u, l, rest = string.match(state, '^(%d+) (%d+) (%d+)(.*)$')
  if d and rest ~= '' then
    local a, b, c, e = string.match(rest, '^ (%d+) (%d+) (%d+) (%d+)$')
    if a then
      due, blind, head, tail = tonumber(a), tonumber(b), tonumber(c), tonumber(e)
    else
      d = nil
    end
  end
  if d then
    local last
    debt, u, last = tonumber(d), tonumber(u), tonumber(l)
    if now < last then at, lag = last, last - now end
    if u ~= unit then debt = mulmax(ceildiv(debt, u), unit) end
    debt = drain(math.min(debt, beyond(cap, math.max(due - last, 0))), at - last)
  else
    bad = true
  end
end

-- reset is how long until the bucket is full.
local function reset()
  if debt == 0 then return 0 end
  return ceildiv(debt, rate) + lag
end

local function store()
  local ms = px(reset())
  if ms <= 0 then
    redis.call('DEL', KEYS[1], KEYS[2])
    return
  end
  if tail == head and due <= at and blind <= at then
    redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', debt, unit, at), 'PX', ms)
    return
  end
  redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f',
    debt, unit, at, due, blind, head, tail), 'PX', ms)
  redis.call('PEXPIRE', KEYS[2], ms)
end
