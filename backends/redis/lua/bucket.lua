-- A token bucket. KEYS[1] is a byte, VERSION, and a string of doubles: what is owed, last and the time
-- of its expiry; and with reservations or another burst also due, wide, blind, head, tail,
-- over and of: what the capacity of the last grant did not see, and that capacity; and with a
-- charge beyond the capacity also paid, when it is repaid. KEYS[1]:h
-- is a hash of reservations: field r<seq>, head <= seq < tail, has "n due id".
-- Of what is owed, debt is as much as the capacity of this limit sees.
-- ARGV[1]: rate, unit and capacity in credits; then of the first ask the least and the most
-- permits, how far ahead in microseconds, and how many ask so one after
-- the other, or 0 to give permits back, or -1 to charge them; below 0 they are given back.
-- include limits.lua
local rate, unit, cap, least, want, ahead, times, pos = unpackd('<ddddddd', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, lag, debt, owed, till, due, wide, blind, head, tail, paid = now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
local state = call('GET', KEYS[1])
local bad = false
local long = false -- whether the state has its second half
local longest = false -- whether it has paid, too

if state then
  local version, last, over, of = 0, -1, 0, cap
  if #state == 25 then
    version, owed, last, till = unpackd('<Bddd', state)
  elseif #state == 81 then
    long = true
    version, owed, last, till, due, wide, blind, head, tail, over, of = unpackd('<Bdddddddddd', state)
  elseif #state == 89 then
    long, longest = true, true
    version, owed, last, till, due, wide, blind, head, tail, over, of, paid = unpackd('<Bddddddddddd', state)
  end
  if version == VERSION and owed >= over and over >= 0 and owed <= MAX and last >= 0 and last <= MAX and tail >= head and tail - head <= 1024 then
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
      if debt > cap then debt = math.min(debt, cap + rate * math.max(due - last, paid - last, 0)) end
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

if bad then return redis.error_reply(corrupt) end
-- To give back: GETEX counts as a write that needs no memory, and after it a full server refuses no write.
if times == 0 or want < 0 then call('GETEX', KEYS[1]) end

if times <= 0 then
  local min, max = math.min, math.max
  -- The reservations that are not due, and their credits.
  local live, reserved = {}, 0
  if head < tail then
    local names = {}
    for seq = head, tail - 1 do names[#names + 1] = string.format('r%.0f', seq) end
    for i, r in ipairs(call('HMGET', KEYS[1] .. ':h', unpack(names))) do
      local n, when, id = string.match(r or '', '^(%d+) (%d+) (.*)$')
      n, when = tonumber(n), tonumber(when)
      if n and when > at then
        live[#live + 1] = {n = n, at = when, id = id, field = names[i]}
        reserved = min(reserved + n * unit, MAX)
      end
    end
  end

  -- needed is the debt that has to stay for them, if level credits are spent: see driver/limits.
  local function needed(level)
    local rest = {}
    for _, rec in ipairs(live) do
      if rec.n > 0 then rest[#rest + 1] = rec end
    end
    table.sort(rest, function(a, b) return a.at < b.at end)
    local need, from = level, at
    for _, rec in ipairs(rest) do
      level = min(max(level - rate * (rec.at - from), 0) + rec.n * unit, MAX)
      need = max(need, min(level + rate * (rec.at - at), MAX))
      from = rec.at
    end
    return need
  end

  if times == 0 then
    -- ARGV[1] asks for as many as are given back, ARGV[2] is the id. Gives back what driver/limits.Refund does.
    -- Reply: {1} if the state changed, else {0}.
    local found
    for _, rec in ipairs(live) do
      if rec.id == ARGV[2] then found = rec end
    end
    if not found then return {0} end

    -- Once per id: all its records lose their name.
    if at >= blind then found.n = max(found.n - want, 0) end
    for _, rec in ipairs(live) do
      if rec.id == ARGV[2] then
        call('HSET', KEYS[1] .. ':h', rec.field, string.format('%.0f %.0f ', rec.n, rec.at))
      end
    end
    if at < blind then return {1} end

    local whole = debt == owed
    owed = min(owed, needed(min(max(owed - reserved, 0), wide)))
    due = 0
    for _, rec in ipairs(live) do
      if rec.n > 0 then due = max(due, rec.at) end
    end
    debt = whole and owed or min(debt, owed, cap + rate * max(due - at, paid - at, 0))
    if owed > 0 then us = ceildiv(owed, rate) + lag end
    dirty, reply = true, {1}
  else
    -- Does what driver/limits.Charge does, and then answers as to a peek.
    if due <= at then wide = owed end
    if want > 0 then
      local after = max(debt, min(debt + want * unit, cap + rate * MAXDEBT, MAX))
      local added = after - debt
      wide = min(wide + added, MAX)
      owed, debt = max(min(owed + added, MAX), after), after
      if debt > cap then paid = max(paid, min(at + ceildiv(debt - cap, rate), MAX)) end
      dirty = true
    elseif want < 0 and owed > 0 and at >= blind then
      local back = min(-want * unit, MAX)
      local function less(d)
        return min(d, needed(max(min(d - reserved, wide) - back, 0)))
      end
      local before, seen, spent = owed, debt, wide
      owed, debt = less(owed), less(debt)
      dirty = owed < before or debt < seen
      if dirty then
        local freed = before - owed
        wide = max(spent - back, min(spent, cap + before - seen))
        if paid > at then paid = max(paid - (freed - freed % rate) / rate, at) end
      end
    end
    least, want, times = 0, 0, 1
  end
end

if not reply then
  -- ARGV[1] goes on with what the first ask has, of each that follows; the other arguments are
  -- the ids of the asks, which may be left out. More than one ask so only for all or nothing,
  -- at once and without an id: as many as there are permits for are granted.
  -- Reply, as doubles: n, delay, retry, valid of each ask; remaining, reset. Of several, n is
  -- what they have together, and retry is of those who have nothing. Of what is granted at once,
  -- valid is the debt before it, in credits, for the client to divide; -1: they are to be spent at once.
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
end

if dirty and us == 0 then
  call('DEL', KEYS[1] .. ':h')
  call('DEL', KEYS[1])
elseif dirty then
  local ms
  if now + us > till then
    ms = ceildiv(us, 500) + 1000
    till = now + ms * 1000
  end
  if long or head < tail or debt < owed or paid > at then
    state = pack('<Bdddddddddd', VERSION, owed, at, till, due, wide, blind, head, tail, owed - debt, cap)
    if longest or paid > at then state = state .. pack('<d', paid) end
    if head < tail then call('PEXPIRE', KEYS[1] .. ':h', ceildiv(math.max(till - now, 1), 1000)) end
  else
    state = pack('<Bddd', VERSION, owed, at, till)
  end
  if ms then
    call('SET', KEYS[1], state, 'PX', ms)
  else
    call('SETRANGE', KEYS[1], '0', state)
  end
end
return reply
