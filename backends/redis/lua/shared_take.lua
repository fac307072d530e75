-- Add a hold of ARGV[1] (id) to those of the hash KEYS[1], or prolong the one that it has. ARGV[2] is packed: ttl, mode,
-- weight, of, and 1 if ARGV[1] is at the head of the queue, or else 0.
-- Reply, packed: {1, left of the lease, token, slot, bound on the permits}; {0, for how long it is in the way at most,
-- 0, 0, 0} if others are; {-1, 0, 0, 0, 0} if there are too many holds.
-- include shared.lua
local MAXTOKEN, MAXHOLDERS, HEADFOR = 9007199254740991, 1024, 1000000
local ttl, mode, weight, of, athead = unpackd('<ddddd', ARGV[2])

-- All is looked at before anything is changed.
local last, head, headtill, own = 0, nil, 0, nil
local fits, sum, bound = true, weight, of
local live, taken = 0, {} -- holds, and their slots
local first, latest = MAXTOKEN, now + ttl -- when the first lease is over, and the last
local shorter, ended = {}, {} -- what the clock, or a lease that is over, changes
local fields = call('HGETALL', key)
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if field == ' token' then
    if byte(value) ~= 1 or #value ~= 9 then error(corrupt, 0) end
    last = unpackd('<d', value, 2)
  elseif field == ' head' then
    headtill, head = readhead(value)
  elseif field ~= ' watch' then
    local its, till, lease, slot, token, w, o = readhold(value)
    if till > now then
      live = live + 1
      taken[slot] = true
      if till < first then first = till end
      if till > latest then latest = till end
      if its == 2 or mode == 2 then fits = false end
      if its == 3 then
        sum = sum + w
        if o < bound then bound = o end
      end
      if field == id then own = {its, till, lease, slot, token, w, o} end
      if till > now + lease then shorter[field] = pack(HOLD, 1, its, till, lease, slot, token, w, o) end
    else
      ended[#ended + 1] = field
    end
  end
end
if not (last >= 0 and last < MAXTOKEN) then error(corrupt, 0) end
if headtill > now + HEADFOR + 1 then
  headtill = now + HEADFOR + 1
  shorter[' head'] = '\1' .. pack('<d', headtill) .. head
end
for field, value in pairs(shorter) do call('HSET', key, field, value) end

local till, lease, slot, token = now + ttl, ttl, 0, math.max(last + 1, now)
if own then
  local was, had
  mode, was, had, slot, token, weight, of = unpack(own)
  if was >= till then till, lease = was, had end
  bound = of
else
  local headed = head and head ~= id and headtill > now
  if headed or not fits or mode == 3 and sum > bound then
    if headed then
      first = math.min(first, headtill)
    elseif athead == 1 then
      call('HSET', key, ' head', '\1' .. pack('<d', now + HEADFOR) .. id)
    end
    return pack(REPLY, 0, first - now, 0, 0, 0)
  end
  if live >= MAXHOLDERS then return pack(REPLY, -1, 0, 0, 0, 0) end
  while taken[slot] do slot = slot + 1 end
  if head then ended[#ended + 1] = ' head' end
  if ended[1] then call('HDEL', key, unpack(ended)) end
  call('HSET', key, ' token', '\1' .. pack('<d', token))
end
call('PEXPIRE', key, math.ceil((latest - now) / 1000) + 2 * KEPT)
call('HSET', key, id, pack(HOLD, 1, mode, till, lease, slot, token, weight, of))
return pack(REPLY, 1, till - now, token, slot, bound)
