-- ARGV[1] asks for as many as are given back, ARGV[2] is the id. Gives back what driver/limits.Refund does.
-- Reply: {1} if the state changed, else {0}.
if bad then return redis.error_reply(corrupt) end
if head == tail then return {0} end

local min, max = math.min, math.max
local names = {}
for seq = head, tail - 1 do names[#names + 1] = string.format('r%.0f', seq) end
local found
local live, reserved = {}, 0
for i, r in ipairs(call('HMGET', KEYS[1] .. ':h', unpack(names))) do
  local n, when, id = string.match(r or '', '^(%d+) (%d+) (.*)$')
  n, when = tonumber(n), tonumber(when)
  if n and when > at then
    local rec = {n = n, at = when, id = id, field = names[i]}
    live[#live + 1] = rec
    reserved = min(reserved + n * unit, MAX)
    if id == ARGV[2] then found = rec end
  end
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

local rest = {}
for _, rec in ipairs(live) do
  if rec.n > 0 then rest[#rest + 1] = rec end
end
table.sort(rest, function(a, b) return a.at < b.at end)

local function drain(d, us)
  return max(d - rate * us, 0)
end

-- The debt that has to stay: see freed in driver/limits.
local level = min(max(owed - reserved, 0), wide)
local need, from = level, at
due = 0
for _, rec in ipairs(rest) do
  level = min(drain(level, rec.at - from) + rec.n * unit, MAX)
  need = max(need, min(level + rate * (rec.at - at), MAX))
  from = rec.at
  due = max(due, rec.at)
end
owed = min(owed, need)
debt = min(debt, owed, cap + rate * max(due - at, 0))
if owed > 0 then us = ceildiv(owed, rate) + lag end
dirty, reply = true, {1}
