-- ARGV[1] goes on with what the first ask has, of each that follows; the other arguments are
-- the ids of the asks, which may be left out. More than one ask so only for all or nothing
-- and without an id: as many as there are permits for are granted.
-- Reply, as doubles: n, 0, retry, valid of each ask; remaining, reset. Of several, n is what
-- they have together, and retry is of those who have nothing.
if bad then return redis.error_reply(corrupt) end

local out, i = nil, 1
local g, retry, valid
while true do
  i = i + 1
  g, retry, valid = want * times, 0, 0
  local room = rate - sum
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
  if g == 0 or times > 1 and g < want * times then
    -- How long until need permits have left: the oldest is most often enough.
    local need = sum + math.max(least, 1) - rate
    if need > 0 then retry = (index + span + 1) * width - at + lag end
    if need > 0 and not older and #state == 128 then state = call('GET', KEYS[1]) end
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
