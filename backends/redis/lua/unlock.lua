-- Free KEYS[1] if ARGV[1] (id) holds it. Reply: {1}, or {0} if it does not.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
redis.call('DEL', KEYS[1])
return {1}
