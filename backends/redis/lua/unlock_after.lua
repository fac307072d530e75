-- End the hold of ARGV[1] (id) on KEYS[1], but keep the key taken for ARGV[2]
-- (ms) from now. No id contains a space, so that the value left behind is
-- nobody's. Reply: 1, or 0 if ARGV[1] does not hold. Where others wait, the
-- first of them is told until when.
if redis.call('GET', KEYS[1]) ~= '1 ' .. ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2]) -- first: after it a full server refuses no write
redis.call('SET', KEYS[1], '1 released ' .. ARGV[1], 'PX', ARGV[2])
if redis.pcall('EXISTS', KEYS[1] .. ':queue') ~= 1 then
  return 1
end
-- include offer.lua
pcall(tellnext, ARGV[2])
return 1
