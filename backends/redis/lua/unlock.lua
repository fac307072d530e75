-- Free KEYS[1] if ARGV[1] (id) holds it, or take ARGV[1] out of the queue for it. With ARGV[2], which comes before the id
-- in the value of a lock that is only kept taken, free also one that is kept for ARGV[1].
-- Reply: 1, or 0 if it does neither. Where others wait, the lock is offered
-- to the next of them.
local value = redis.call('GET', KEYS[1])
local holds = value == '1 ' .. ARGV[1] or ARGV[2] and value == ARGV[2] .. ARGV[1]
if redis.pcall('EXISTS', KEYS[1] .. ':queue') ~= 1 then
  if not holds then return 0 end
  redis.call('DEL', KEYS[1])
  return 1
end
-- include offer.lua
-- Whatever passing on comes to, the hold has ended.
if holds then
  local ok, passed = pcall(pass)
  if not (ok and passed) then call('DEL', lock) end
  return 1
end

-- ARGV[1] does not hold: it leaves the queue, and what it was offered goes to the next.
local id, holder = ARGV[1], call('GET', lock)
local offered = holder == '1 offered ' .. id
local first = call('ZRANGE', queue, 0, 0)[1] == id
local waited = leave(id)
if offered or not holder then
  local ok, passed = pcall(pass)
  if offered and not (ok and passed) then call('DEL', lock) end
elseif first then
  pcall(tellnext, call('PTTL', lock))
end
return (waited or offered) and 1 or 0
