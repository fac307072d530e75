-- A sliding or fixed window. KEYS[1] is a string of doubles: last, sum, index,
-- n, oldest and the time of its expiry; and with refundable grants also head
-- and tail: sum permits in all, of which n in the newest sub-window, index, and
-- none before oldest. KEYS[2] is a hash of the other sub-windows, index -> permits,
-- and of the refundable grants: field r<seq>, head <= seq < tail, has "n index id".
-- Each sub-window is written once when the next begins and read once when it
-- leaves: the work of a grant does not depend on how many there are.
-- ARGV[1]: rate, width of a sub-window in microseconds, how many count beside the
-- current one, and what follows them.
local rate, width, span, pos = unpackd('<ddd', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, lag, sum, index, n, oldest, till, head, tail = now, 0, 0, 0, 0, 0, 0, 0, 0
local state = call('GET', KEYS[1])
local bad = false
local long = false -- whether the state has its last part
if state then
  local last = -1
  if #state == 48 then
    last, sum, index, n, oldest, till = unpackd('<dddddd', state)
  elseif #state == 64 then
    long = true
    last, sum, index, n, oldest, till, head, tail = unpackd('<dddddddd', state)
  end
  if last >= 0 and last <= MAX and sum >= n and n >= 0 and oldest <= index and index - oldest <= span
    and index <= div(last, width) and tail >= head and tail - head <= 1024 then
    if now < last then at, lag = last, last - now end
  else
    bad = true
  end
end
local current = div(at, width)
local first = current - span -- the oldest that counts

local us, dirty, beside, reply = 0, false, false, nil -- beside: the hash has something new

-- spilled reads the permits of the sub-windows from i to j in the hash.
local function spilled(i, j)
  local names = {}
  for k = i, j do names[#names + 1] = string.format('%.0f', k) end
  if #names == 0 then return names, {} end
  local counts = call('HMGET', KEYS[2], unpack(names))
  for k = 1, #names do counts[k] = tonumber(counts[k] or 0) or 0 end
  return names, counts
end

local gone
if sum > 0 and not bad then
  if index < first then
    sum, n = 0, 0
  elseif oldest < first then
    local names, counts = spilled(oldest, first - 1)
    gone = {}
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
