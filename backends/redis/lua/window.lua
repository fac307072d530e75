-- A sliding or fixed window. KEYS[1] is a byte, VERSION, and a string of doubles: last, sum, index, n and the
-- time of its expiry: sum permits in all, of which n in the newest sub-window, index. The expiry is
-- negative where refundable grants follow: head and tail. Then, oldest first, n * 128 +
-- index % 128 of each older sub-window that has some. KEYS[1]:h is a hash of refundable grants:
-- field r<seq>, head <= seq < tail, has "n index id".
-- What a grant reads is the beginning. An older sub-window is written once, when the next one
-- begins, and only then does any leave: the work of a grant does not depend on how many there are.
-- ARGV[1]: rate, width of a sub-window in microseconds, how many count beside the
-- current one; then of the first ask the least and the most permits, 0, and how many ask so
-- one after the other, or 0 to give permits back, or -1 to charge them; below 0 they are given back.
-- include limits.lua
local rate, width, span, least, want, ahead, times, pos = unpackd('<ddddddd', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at, lag, sum, index, n, till, head, tail = now, 0, 0, 0, 0, 0, 0, 0
local state = call('GETRANGE', KEYS[1], '0', '128')
local bad = false
local whole = 0 -- how long a state that is far ahead lasts
local from = 1 -- where in state the older sub-windows begin
if state ~= '' then
  local version, last = 0, -1
  if #state >= 41 and #state % 8 == 1 then
    version, last, sum, index, n, till, from = unpackd('<Bddddd', state)
    if till < 0 and #state >= 57 then
      till, head, tail, from = -till, unpackd('<dd', state, from)
    end
  end
  if version == VERSION and last >= 0 and last <= MAX and sum >= n and n >= 0 and till >= 0
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
  if #state == 129 then state = call('GET', KEYS[1]) end
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

if bad then return redis.error_reply(corrupt) end
-- To give back: GETEX counts as a write that needs no memory, and after it a full server refuses no write.
if times == 0 or want < 0 then call('GETEX', KEYS[1]) end

if times == 0 then
  -- ARGV[1] asks for as many as are given back, ARGV[2] is the id. Gives back what driver/limits.Refund does.
  -- Reply: {1} if the state changed, else {0}.
  if sum == 0 or head == tail then return {0} end

  local names = {}
  for seq = head, tail - 1 do names[#names + 1] = string.format('r%.0f', seq) end
  local found
  for i, r in ipairs(call('HMGET', KEYS[1] .. ':h', unpack(names))) do
    local g, where, id = string.match(r or '', '^(%d+) (%d+) (.*)$')
    if g and id == ARGV[2] and tonumber(where) >= first then
      -- Once per id: all its records lose their name.
      call('HSET', KEYS[1] .. ':h', names[i], g .. ' ' .. where .. ' ')
      found = {n = tonumber(g), index = tonumber(where)}
    end
  end
  if not found then return {0} end

  if #state == 129 then state = call('GET', KEYS[1]) end
  older = string.sub(state, from)
  local back = math.min(want, found.n)
  if found.index == index then
    back = math.min(back, n)
    n = n - back
  else
    local most = 0
    for p = 1, #older, 8 do
      local slot = unpackd('<d', older, p)
      if index - (index - slot) % 128 == found.index then
        most = (slot - slot % 128) / 128
        back = math.min(back, most)
        slot = back < most and pack('<d', slot - back * 128) or ''
        older = string.sub(older, 1, p - 1) .. slot .. string.sub(older, p + 8)
        break
      end
    end
    back = math.min(back, most)
  end
  sum = sum - back
  if sum > 0 and n == 0 and older ~= '' then
    -- The newest sub-window says when the state may go: it must not be empty.
    local slot = unpackd('<d', older, #older - 7)
    index, n = index - (index - slot) % 128, (slot - slot % 128) / 128
    older = string.sub(older, 1, -9)
  end
  if sum > 0 then us = whole > 0 and whole or (index + span + 1) * width - at + lag end
  dirty, beside, reply = true, true, {1}
else
  -- ARGV[1] goes on with what the first ask has, of each that follows; the other arguments are
  -- the ids of the asks, which may be left out. More than one ask so only for all or nothing
  -- and without an id: as many as there are permits for are granted.
  -- Reply, as doubles: n, 0, retry, valid of each ask; remaining, reset. Of several, n is what
  -- they have together, and retry is of those who have nothing.
  local out, i = nil, 1
  local g, retry, valid
  local charge = times < 0
  if charge then
    -- What driver/limits.Charge does; then it answers as to a peek.
    times = 1
    if want < 0 then
      local back = math.min(-want, sum)
      if back > 0 then
        if #state == 129 then state = call('GET', KEYS[1]) end
        older, sum, dirty = string.sub(state, from), sum - back, true
        while n <= back and older ~= '' do -- all of the newest: the one before it is the newest then
          back = back - n
          local slot = unpackd('<d', older, #older - 7)
          index, n = index - (index - slot) % 128, (slot - slot % 128) / 128
          older = string.sub(older, 1, -9)
        end
        n = n - math.min(back, n)
      end
      want = 0
    else
      want = math.min(want, MAXCOUNT - (sum > 0 and index == current and n or 0))
    end
  end
  while true do
    i = i + 1
    g, retry, valid = want * times, 0, 0
    local room = charge and g or rate - sum
    if g > room then
      g = room
      if times > 1 then g = room - room % want end
      if g < 0 then g = 0 end
    end
    if g > 0 and g >= least then
      valid = (current + 1) * width - at
      dirty = true
      if sum == 0 then
        if head ~= tail then call('DEL', KEYS[1] .. ':h') end
        index, older, head, tail = current, '', 0, 0
      elseif index < current then
        older = string.sub(state, from) .. pack('<d', n * 128 + index % 128)
        index, n = current, 0
      end
      n, sum = n + g, sum + g
      local id = ARGV[i] or ''
      if id ~= '' or head < tail then
        local function field(seq) return string.format('r%.0f', seq) end
        -- indexof is the sub-window of the grant in field seq, 0 if it is not there.
        local function indexof(seq)
          local r = call('HGET', KEYS[1] .. ':h', field(seq))
          return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
        end
        while head < tail and (indexof(head) < first or id ~= '' and tail - head == 1024) do
          call('HDEL', KEYS[1] .. ':h', field(head))
          head = head + 1
        end
        if id ~= '' then
          call('HSET', KEYS[1] .. ':h', field(tail), string.format('%.0f %.0f ', g, current) .. id)
          tail = tail + 1
          beside = true
        end
      end
    else
      g = 0
    end
    if g == 0 or charge or times > 1 and g < want * times then
      -- How long until need permits have left: the oldest is most often enough.
      local need = sum + math.max(least, 1) - rate
      if need > 0 then retry = (index + span + 1) * width - at + lag end
      if need > 0 and not older and #state == 129 then state = call('GET', KEYS[1]) end
      local slots, p = older or state, older and 1 or from
      while need > 0 and p < #slots do
        local slot
        slot, p = unpackd('<d', slots, p)
        need = need - (slot - slot % 128) / 128
        if need <= 0 then retry = (index - (index - slot) % 128 + span + 1) * width - at + lag end
      end
    end
    if pos > #ARGV[1] then break end
    out = (out or '') .. pack('<dddd', g, 0, retry, valid)
    least, want, ahead, times, pos = unpackd('<dddd', ARGV[1], pos)
  end

  if sum > 0 then us = whole > 0 and whole or (index + span + 1) * width - at + lag end
  reply = pack('<dddddd', g, 0, retry, valid, sum < rate and rate - sum or 0, us)
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
  local value
  if begin == 58 or head < tail then
    value = pack('<Bddddddd', VERSION, at, sum, index, n, -till, head, tail)
  else
    value = pack('<Bddddd', VERSION, at, sum, index, n, till)
  end
  if not older and (ms or #value + 1 ~= begin) then
    if #state == 129 then state = call('GET', KEYS[1]) end
    older = string.sub(state, begin)
  end
  if older then value = value .. older end
  if ms then
    call('SET', KEYS[1], value, 'PX', ms)
  elseif older and #value < #state then
    call('SET', KEYS[1], value, 'KEEPTTL')
  else
    call('SETRANGE', KEYS[1], '0', value)
  end
  if head < tail and (beside or ms) then
    call('PEXPIRE', KEYS[1] .. ':h', ceildiv(math.max(till - now, 1), 1000))
  end
end
return reply
