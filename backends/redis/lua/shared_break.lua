-- Revoke the hold of ARGV[1] (id) in the hash KEYS[1]: it can neither renew nor unlock, and counts until its lease is
-- over. So nobody is told. Reply: 1, or 0 if ARGV[1] does not hold.
-- include shared.lua
local value = call('HGET', key, id)
if not value then return 0 end
local mode, till, lease, slot, token, weight, of = readhold(value)
if till <= now then return 0 end
call('HDEL', key, id, ' sums') -- first: after it a full server refuses no write
call('HSET', key, string.format('%s broken %.0f', id, token), pack(HOLD, 2, mode, till, lease, slot, token, weight, of))
return 1
