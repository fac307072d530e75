-- Add a hold of ARGV[1] (id) to those of the hash KEYS[1], or prolong the one that it has. ARGV[2] is packed: ttl, mode,
-- weight, of, and 1 if ARGV[1] is at the head of the queue, or else 0.
-- Reply, packed: {1, left of the lease, token, slot, bound on the permits}; {0, for how long it is in the way at most,
-- 0, 0, 0} if others are; {-1, 0, 0, 0, 0} if there are too many holds.
-- include shared.lua
local MAXTOKEN, MAXHOLDERS, HEADFOR = 9007199254740991, 1024, 1000000
local ttl, mode, weight, of, athead = unpackd('<ddddd', ARGV[2])
local till, lease, slot, bound = now + ttl, ttl, 0, of

-- All is looked at before anything is changed: values alone, because names of fields take as long again.
local mine, all = call('HGET', key, id), call('HVALS', key)
local last, head, headtill, own = 0, nil, 0, nil
local fits, sum, live = true, weight, 0
local first, latest = MAXTOKEN, till -- when the first lease of others is over, and the last of all
local taken, stale = {}, nil -- slots; what to write in place of a value, false: nothing
for i = 1, #all do
  local value = all[i]
  local version, kind = byte(value, 1, 2)
  if version ~= 1 or not kind then return redis.error_reply(corrupt) end
  if kind >= 1 and kind <= 3 then
    if #value ~= 50 then return redis.error_reply(corrupt) end
    local its, ttl, slot, token, w, o = unpackd('<dddddd', value, 3)
    if its > now + ttl + 1 then
      its = now + ttl + 1
      stale = stale or {}
      stale[value] = pack(HOLD, 1, kind, its, ttl, slot, token, w, o)
    end
    if its > now then
      live = live + 1
      taken[slot] = true
      if its < first then first = its end
      if its > latest then latest = its end
      if value == mine then own = {kind, its, ttl, slot, token, w, o} end -- the token makes it the only one
      if kind == 2 or mode == 2 then fits = false end
      if kind == 3 then
        sum = sum + w
        if o < bound then bound = o end
      end
    elseif value ~= mine then
      stale = stale or {}
      stale[value] = false
    end
  elseif kind == 116 then -- 't'
    if #value ~= 10 then return redis.error_reply(corrupt) end
    last = unpackd('<d', value, 3)
  elseif kind == 104 then -- 'h'
    if #value < 11 then return redis.error_reply(corrupt) end
    head, headtill = string.sub(value, 11), unpackd('<d', value, 3)
    if headtill > now + HEADFOR + 1 then
      headtill = now + HEADFOR + 1
      call('HSET', key, ' head', '\1h' .. pack('<d', headtill) .. head)
    end
  elseif kind ~= 119 then -- 'w'
    return redis.error_reply(corrupt)
  end
end
if not (last >= 0 and last < MAXTOKEN) then return redis.error_reply(corrupt) end
local ended = {}
if stale then
  local fields = call('HGETALL', key)
  for i = 1, #fields, 2 do
    local value = stale[fields[i + 1]]
    if value then call('HSET', key, fields[i], value) elseif value == false then ended[#ended + 1] = fields[i] end
  end
end

local token = last + 1
if own then
  local was, had
  mode, was, had, slot, token, weight, of = unpack(own)
  if was >= till then till, lease = was, had end
  bound = of
else
  local headed = head and head ~= id and headtill > now
  if headed or not fits or mode == 3 and sum > bound then
    if headed then
      if headtill < first then first = headtill end
    elseif athead == 1 then
      call('HSET', key, ' head', '\1h' .. pack('<d', now + HEADFOR) .. id)
    end
    return pack(REPLY, 0, first - now, 0, 0, 0)
  end
  if live >= MAXHOLDERS then return pack(REPLY, -1, 0, 0, 0, 0) end
  while taken[slot] do slot = slot + 1 end
  if now > token then token = now end
  last = token
  if head and (head == id or headtill <= now) then ended[#ended + 1] = ' head' end
end
call('HSET', key, ' token', '\1t' .. pack('<d', last), id, pack(HOLD, 1, mode, till, lease, slot, token, weight, of))
local kept = redis.pcall('PEXPIRE', key, math.ceil((latest - now) / 1000) + 2 * KEPT)
if type(kept) == 'table' then -- the user may not: the hash would stay for ever
  if not own then call('HDEL', key, id) end
  return kept
end
if not own and ended[1] then call('HDEL', key, unpack(ended)) end
return pack(REPLY, 1, till - now, token, slot, bound)
