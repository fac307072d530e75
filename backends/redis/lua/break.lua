-- Revoke the hold of ARGV[1] (id) on KEYS[1]: it can neither renew nor unlock,
-- and the key stays taken for what is left of its lease. Reply: 1, or 0 if
-- ARGV[1] does not hold. GETEX is GET, and counts as a write that needs no memory: after it a full server
-- refuses no write.
if redis.call('GETEX', KEYS[1]) ~= '1 ' .. ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], '1 released ' .. ARGV[1], 'KEEPTTL')
return 1
