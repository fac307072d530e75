-- ARGV[1] goes on with min, n and 0 of each ask; the other arguments are the ids
-- of the asks, which may be left out.
-- Reply, as doubles: n, 0, retry, valid of each ask; remaining, reset.
if bad then return redis.error_reply(corrupt) end

local out, i = '', 1
local g, retry, valid
repeat
  local least, _
  least, g, _, pos = unpackd('<ddd', ARGV[1], pos)
  i = i + 1
  retry, valid = 0, 0
  g = min(g, max(rate - sum, 0))
  if g > 0 and g >= least then
    valid = (current + 1) * width - at
    dirty = true
    if sum == 0 then
      if oldest ~= index or head ~= tail then call('DEL', KEYS[2]) end
      index, oldest, head, tail = current, current, 0, 0
    elseif index < current then
      call('HSET', KEYS[2], string.format('%.0f', index), n)
      beside = true
      index, n = current, 0
    end
    n, sum = n + g, sum + g
    local id = ARGV[i] or ''
    if id ~= '' or head < tail then
      local function field(seq) return string.format('r%.0f', seq) end
      -- indexof is the sub-window of the grant in field seq, 0 if it is not there.
      local function indexof(seq)
        local r = call('HGET', KEYS[2], field(seq))
        return r and tonumber(string.match(r, '^%d+ (%d+)')) or 0
      end
      while head < tail and (indexof(head) < first or id ~= '' and tail - head == 1024) do
        call('HDEL', KEYS[2], field(head))
        head = head + 1
      end
      if id ~= '' then
        call('HSET', KEYS[2], field(tail), string.format('%.0f %.0f ', g, current) .. id)
        tail = tail + 1
        beside = true
      end
    end
  else
    g = 0
    -- How long until need permits have left: look at few sub-windows first,
    -- the oldest is most often enough.
    local need = sum + max(least, 1) - rate
    local from, step = max(oldest, first), 4
    if need > 0 then retry = (index + span + 1) * width - at + lag end
    while need > 0 and from < index do
      local _, counts = spilled(from, min(from + step - 1, index - 1))
      for k = 1, #counts do
        need = need - counts[k]
        if need <= 0 then
          retry = (from + k - 1 + span + 1) * width - at + lag
          break
        end
      end
      from, step = from + step, step * 4
    end
  end
  local last = pos > #ARGV[1]
  if not last then out = out .. pack('<dddd', g, 0, retry, valid) end
until last

if sum > 0 then us = (index + span + 1) * width - at + lag end
reply = pack('<dddddd', g, 0, retry, valid, max(rate - sum, 0), us)
if out ~= '' then reply = out .. reply end
