-- Extend the hold of ARGV[1] (id) in the hash KEYS[1]. ARGV[2] is packed: ttl, mode and weight. The hold becomes
-- smaller if that is less than it has. Never creates, never shortens.
-- Reply, packed: {1, left of the lease, token, slot, of}, or zeros if it does not hold.
-- include shared.lua
local value, sums = unpack(call('HMGET', key, id, ' sums'))
if not value then return pack(REPLY, 0, 0, 0, 0, 0) end
local mode, till, lease, slot, token, weight, of = readhold(value)
if till <= now then return pack(REPLY, 0, 0, 0, 0, 0) end
local ttl, want, less = unpackd('<ddd', ARGV[2])
if now + ttl > till then till, lease = now + ttl, ttl end
local smaller = mode == 2 and want == 1 or mode == 3 and want == 3 and less >= 1 and less < weight
if smaller then mode, weight = want, less end
value = pack(HOLD, 2, mode, till, lease, slot, token, weight, of)
if sums and byte(sums) ~= 2 then error(corrupt, 0) end
call('HDEL', key, ' ') -- there is none: after it a full server refuses no write
if sums and not smaller and unpackd('<d', sums, 2) <= now then -- that the others' sums are of now too
  call('HSET', key, id, value, ' sums', '\2' .. pack('<d', now) .. string.sub(sums, 10))
else
  if sums then call('HDEL', key, ' sums') end
  call('HSET', key, id, value)
end
local life = math.ceil((till - now) / 1000) + KEPT
if call('PTTL', key) < life then call('PEXPIRE', key, life + KEPT) end
local watch = smaller and call('HGET', key, ' watch')
-- include shared_tell.lua
return pack(REPLY, 1, till - now, token, slot, of)
