-- Add a hold of ARGV[1] (id) to those of the hash KEYS[1], or prolong the one that it has. ARGV[2] is packed: ttl, mode,
-- weight, of, and 1 if ARGV[1] is at the head of the queue, or else 0.
-- Reply, packed: {1, left of the lease, token, slot, bound on the permits}; {0, for how long it is in the way at most,
-- 0, 0, 0} if others are; {-1, 0, 0, 0, 0} if there are too many holds.
-- include shared.lua
local MAXTOKEN, MAXHOLDERS, HEADFOR = 9007199254740991, 1024, 1000000
local ttl, mode, weight, of, athead = unpackd('<ddddd', ARGV[2])
local till, lease, slot, bound = now + ttl, ttl, 0, of

-- All is looked at before anything is changed.
local all = call('HGETALL', key)
local last, head, headtill, mine = 0, nil, 0, nil
local fits, sum, live = true, weight, 0
local first, latest = MAXTOKEN, till -- when the first lease of others is over, and the last of all
local taken, ended, cut = {}, {}, {} -- slots; fields to delete; fields and values to write
for i = 1, #all, 2 do
  local field, value = all[i], all[i + 1]
  if byte(value) ~= 1 then return redis.error_reply(corrupt) end
  if byte(field) ~= 32 then
    if #value ~= 50 then return redis.error_reply(corrupt) end
    local _, kind, its, ttl, slot, token, w, o = unpackd(HOLD, value)
    if kind < 1 or kind > 3 then return redis.error_reply(corrupt) end
    if its > now + ttl + 1 then
      its = now + ttl + 1
      cut[#cut + 1] = field
      cut[#cut + 1] = pack(HOLD, 1, kind, its, ttl, slot, token, w, o)
    end
    if its > now then
      live = live + 1
      taken[slot] = true
      if its < first then first = its end
      if its > latest then latest = its end
      if field == id then mine = {kind, its, ttl, slot, token, w, o} end
      if kind == 2 or mode == 2 then fits = false end
      if kind == 3 then
        sum = sum + w
        if o < bound then bound = o end
      end
    elseif field ~= id then
      ended[#ended + 1] = field
    end
  elseif field == ' token' then
    if #value ~= 9 then return redis.error_reply(corrupt) end
    last = unpackd('<d', value, 2)
  elseif field == ' head' then
    if #value < 10 then return redis.error_reply(corrupt) end
    head, headtill = string.sub(value, 10), unpackd('<d', value, 2)
    if headtill > now + HEADFOR + 1 then
      headtill = now + HEADFOR + 1
      cut[#cut + 1] = field
      cut[#cut + 1] = pack('<Bd', 1, headtill) .. head
    end
  elseif field ~= ' watch' then
    return redis.error_reply(corrupt)
  end
end
if not (last >= 0 and last < MAXTOKEN) then return redis.error_reply(corrupt) end
if cut[1] then call('HSET', key, unpack(cut)) end

local token = last + 1
if mine then
  local was, had
  mode, was, had, slot, token, weight, of = unpack(mine)
  if was >= till then till, lease = was, had end
  bound = of
else
  local headed = head and head ~= id and headtill > now
  if headed or not fits or mode == 3 and sum > bound then
    if headed then
      if headtill < first then first = headtill end
    elseif athead == 1 then
      call('HSET', key, ' head', pack('<Bd', 1, now + HEADFOR) .. id)
    end
    return pack(REPLY, 0, first - now, 0, 0, 0)
  end
  if live >= MAXHOLDERS then return pack(REPLY, -1, 0, 0, 0, 0) end
  while taken[slot] do slot = slot + 1 end
  if now > token then token = now end
  last = token
  if head and (head == id or headtill <= now) then ended[#ended + 1] = ' head' end
end
call('HSET', key, ' token', pack('<Bd', 1, last), id, pack(HOLD, 1, mode, till, lease, slot, token, weight, of))
local kept = redis.pcall('PEXPIRE', key, math.ceil((latest - now) / 1000) + 2 * KEPT)
if type(kept) == 'table' then -- the user may not: the hash would stay for ever
  if not mine then call('HDEL', key, id) end
  return kept
end
if not mine and ended[1] then call('HDEL', key, unpack(ended)) end
return pack(REPLY, 1, till - now, token, slot, bound)
