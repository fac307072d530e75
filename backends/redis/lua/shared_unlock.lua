-- End the hold of ARGV[1] (id) in the hash KEYS[1], and the mark of ARGV[1] at the head of the queue. With ARGV[2], end
-- also what was broken of ARGV[1].
-- Reply: 1, or 0 if there was neither.
-- include shared.lua
local hold, head, watch = unpack(call('HMGET', key, id, ' head', ' watch'))
local live, headed, mine = false, false, false
if hold then
  local _, till = readhold(hold)
  live = till > now
end
if head then
  local till, who = readhead(head)
  mine = who == id
  headed = mine and till > now
end
if mine then call('HDEL', key, ' head') end
if ARGV[2] then
  local prefix = id .. ' broken '
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, #prefix) == prefix then
      local _, till = readhold(all[i + 1])
      if till > now then
        live = true
        call('HDEL', key, all[i])
      end
    end
  end
end
if live then call('HDEL', key, id, ' sums') elseif not headed then return 0 end
-- include shared_tell.lua
return 1
