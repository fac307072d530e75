-- A sliding or fixed window. KEYS[1] is a string of doubles: last, sum, index, n and the time
-- of its expiry: sum permits in all, of which n in the newest sub-window, index. The expiry is
-- negative where refundable grants follow: head and tail. Then, oldest first, n * 128 +
-- index % 128 of each older sub-window that has some. KEYS[1]:h is a hash of refundable grants:
-- field r<seq>, head <= seq < tail, has "n index id".
-- What a grant reads is the beginning. An older sub-window is written once, when the next one
-- begins, and only then does any leave: the work of a grant does not depend on how many there are.
-- ARGV[1]: rate, width of a sub-window in microseconds, how many count beside the
-- current one; then of the first ask the least and the most permits, 0, and how many ask so
-- one after the other.
local rate, width, span, least, want, ahead, times, pos = unpackd('<ddddddd', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, lag, sum, index, n, till, head, tail = now, 0, 0, 0, 0, 0, 0, 0
local state = call('GETRANGE', KEYS[1], '0', '127')
local bad = false
local whole = 0 -- how long a state that is far ahead lasts
local from = 1 -- where in state the older sub-windows begin
if state ~= '' then
  local last = -1
  if #state >= 40 and #state % 8 == 0 then
    last, sum, index, n, till, from = unpackd('<ddddd', state)
    if till < 0 and #state >= 56 then
      till, head, tail, from = -till, unpackd('<dd', state, from)
    end
  end
  if last >= 0 and last <= MAX and sum >= n and n >= 0 and till >= 0
    and index * width <= last and tail >= head and tail - head <= 1024 then
    if now < last then
      at, lag = last, last - now
      if lag > (span + 1) * width + MAXLAG then
        lag, till, whole = 0, 0, (span + 1) * width
        far(KEYS[1], whole)
      end
    end
  else
    bad = true
  end
end
local current = (at - at % width) / width
local first = current - span -- the oldest that counts

local us, dirty, reply = 0, false, nil
local begin = from
local older -- what the older sub-windows are now, if that has changed
local beside = false -- the hash has something new

if sum > 0 and index < current and not bad then
  if #state == 128 then state = call('GET', KEYS[1]) end
  if index < first then
    sum, n, from = 0, 0, #state + 1
  end
  while from < #state do
    local slot, next = unpackd('<d', state, from)
    if (index - slot) % 128 <= index - first then break end
    sum, from = sum - (slot - slot % 128) / 128, next
  end
  bad = not (sum >= n) -- nor is it a number if a sub-window is none
end
