-- End the hold of ARGV[1] (id) in the hash KEYS[1], and the mark of ARGV[1] at the head of the queue.
-- Reply: 1, or 0 if there was neither.
-- include shared.lua
local hold, head, watch = unpack(call('HMGET', key, id, ' head', ' watch'))
if hold and (byte(hold) ~= 1 or #hold ~= 50) or head and (string.sub(head, 1, 2) ~= '\1h' or #head < 11) then return redis.error_reply(corrupt) end
local live = hold and unpackd('<d', hold, 3) > now
if head and string.sub(head, 11) == id then
  call('HDEL', key, ' head')
  head = unpackd('<d', head, 3) > now
else
  head = false
end
if live then call('HDEL', key, id) elseif not head then return 0 end
-- include shared_tell.lua
return 1
