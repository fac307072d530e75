-- A sliding or fixed window. KEYS[1] is a string, "last sum index n oldest" in
-- the usual case and " head tail" after it with refundable grants: sum permits
-- in all, of which n in the newest sub-window, index, and none before oldest.
-- KEYS[2] is a hash of the other sub-windows, index -> permits, and of the
-- refundable grants: field r<seq>, head <= seq < tail, has "n index id".
-- Each sub-window is written once when the next begins and read once when it
-- leaves: the work of a grant does not depend on how many there are.
-- ARGV: rate, width of a sub-window in microseconds, how many count beside the
-- current one, ...
local rate, width, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = clock()
local at, lag, sum, index, n, oldest, head, tail = now, 0, 0, 0, 0, 0, 0, 0
local state = redis.call('GET', KEYS[1])
local bad = false
if state then
  local l, s, i, c, o, rest = string.match(state, '^(%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  if l and rest ~= '' then
    local h, t = string.match(rest, '^ (%d+) (%d+)$')
    if h then head, tail = tonumber(h), tonumber(t) else l = nil end
  end
  if l then
    local last
    last, sum, index, n, oldest = tonumber(l), tonumber(s), tonumber(i), tonumber(c), tonumber(o)
    if now < last then at, lag = last, last - now end
  else
    bad = true
  end
end
local current = div(at, width)
local first = current - span -- the oldest that counts

local function slot(i) return string.format('%.0f', i) end

-- spilled reads the permits of the sub-windows from i to j in the hash.
local function spilled(i, j)
  local names = {}
  for k = i, j do names[#names + 1] = slot(k) end
  if #names == 0 then return names, {} end
  local counts = redis.call('HMGET', KEYS[2], unpack(names))
  for k = 1, #names do counts[k] = tonumber(counts[k] or 0) or 0 end
  return names, counts
end

local gone = {}
if sum > 0 then
  if index < first then
    sum, n = 0, 0
  elseif oldest < first then
    local names, counts = spilled(oldest, first - 1)
    for k = 1, #names do
      if counts[k] > 0 then
        sum = sum - counts[k]
        gone[#gone + 1] = names[k]
      end
    end
    if first == index then sum = n end -- whatever was lost of the hash
    oldest = first
  end
end

local function reset()
  if sum == 0 then return 0 end
  return (index + span + 1) * width - at + lag
end

local function store()
  local ms = px(reset())
  if head == tail then
    redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f %.0f %.0f', at, sum, index, n, oldest), 'PX', ms)
  else
    redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f', at, sum, index, n, oldest, head, tail), 'PX', ms)
  end
  return ms
end
