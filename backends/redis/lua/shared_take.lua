-- Add a hold of ARGV[1] (id) to those of the hash KEYS[1], or prolong the one that it has. ARGV[2] is packed: ttl, mode,
-- weight, of, and 1 if ARGV[1] is at the head of the queue, or else 0.
-- Reply, packed: {1, left of the lease, token, slot, bound on the permits}; {0, for how long others are in the way, or
-- less if one of them was renewed, 0, 0, 0} if they are; {-1, 0, 0, 0, 0} if there are too many holds.
-- include shared.lua
local MAXTOKEN, MAXHOLDERS, HEADFOR = 9007199254740991, 1024, 1000000
local ttl, mode, weight, of, athead = unpackd('<ddddd', ARGV[2])
local shorter, ended = {}, {} -- what the clock, or a lease that is over, changes
local marked, sums, own = unpack(call('HMGET', key, ' head', ' sums', id))

local head, headtill, headed
if marked then
  headtill, head = readhead(marked)
  if headtill > now + HEADFOR + 1 then
    headtill = now + HEADFOR + 1
    shorter[' head'] = '\2' .. pack('<d', headtill) .. head
  end
  headed = head ~= id and headtill > now
end

-- The sums, and when the first lease is over. They are exact until then, unless the clock was set back.
local live, writers, sum, bound, first = 0, 0, 0, MAXTOKEN, MAXTOKEN
local exact, asof, _
if sums then
  if byte(sums) ~= 2 or #sums ~= 49 then error(corrupt, 0) end
  _, asof, first, live, writers, sum, bound = unpackd(SUMS, sums)
  exact = asof <= now and first > now and not own
end
local function refused()
  return headed or writers > 0 or mode == 2 and live > 0 or mode == 3 and weight + sum > math.min(of, bound)
end

-- All is looked at before anything is changed.
local last, latest, taken = 0, now + ttl, {} -- the last token, the end of the last lease, and the slots
if not exact or not refused() then
  live, writers, sum, bound, first, own = 0, 0, 0, MAXTOKEN, MAXTOKEN, nil
  local fields = call('HGETALL', key)
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == ' token' then
      if byte(value) ~= 2 or #value ~= 9 then error(corrupt, 0) end
      last = unpackd('<d', value, 2)
    elseif field ~= ' head' and field ~= ' watch' and field ~= ' sums' then
      local its, till, lease, slot, token, w, o = readhold(value)
      if till > now then
        live = live + 1
        taken[slot] = true
        if till < first then first = till end
        if till > latest then latest = till end
        if its == 2 then writers = writers + 1 end
        if its == 3 then
          sum = sum + w
          if o < bound then bound = o end
        end
        if field == id then own = {its, till, lease, slot, token, w, o} end
        if till > now + lease then shorter[field] = pack(HOLD, 2, its, till, lease, slot, token, w, o) end
      else
        ended[#ended + 1] = field
      end
    end
  end
  if not (last >= 0 and last < MAXTOKEN) then error(corrupt, 0) end
end
for field, value in pairs(shorter) do call('HSET', key, field, value) end

local till, lease, slot, token = now + ttl, ttl, 0, math.max(last + 1, now)
if own then
  local was, had
  mode, was, had, slot, token, weight, of = unpack(own)
  if was >= till then till, lease = was, had end
  bound = of
  if sums then call('HDEL', key, ' sums') end
else
  if refused() or live >= MAXHOLDERS then
    -- A full server does not keep the sums: who is refused needs no memory.
    if not exact then redis.pcall('HSET', key, ' sums', pack(SUMS, 2, now, first, live, writers, sum, bound)) end
    if not refused() then return pack(REPLY, -1, 0, 0, 0, 0) end
    if headed then
      first = math.min(first, headtill)
    elseif athead == 1 then
      call('HSET', key, ' head', '\2' .. pack('<d', now + HEADFOR) .. id)
    end
    return pack(REPLY, 0, first - now, 0, 0, 0)
  end
  while taken[slot] do slot = slot + 1 end
  if head then ended[#ended + 1] = ' head' end
  if sums then ended[#ended + 1] = ' sums' end
  call('HSET', key, ' token', '\2' .. pack('<d', token)) -- first: a full server then refuses it
  if ended[1] then call('HDEL', key, unpack(ended)) end
  bound = math.min(of, bound)
end
call('PEXPIRE', key, math.ceil((latest - now) / 1000) + 2 * KEPT)
call('HSET', key, id, pack(HOLD, 2, mode, till, lease, slot, token, weight, of))
return pack(REPLY, 1, till - now, token, slot, bound)
