-- Free KEYS[1] if ARGV[1] (id) holds it, or take ARGV[1] out of the line for it.
-- Reply: 1, or 0 if it does neither. Where others wait, what follows this file
-- offers the lock to the next of them.
local holds = redis.call('GET', KEYS[1]) == ARGV[1]
if redis.pcall('EXISTS', KEYS[1] .. ':queue') ~= 1 then
  if not holds then return 0 end
  redis.call('DEL', KEYS[1])
  return 1
end
