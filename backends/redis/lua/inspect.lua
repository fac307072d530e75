-- Reply: {value of the lock KEYS[1] or "", its PTTL, value of its fence KEYS[2] or "",
-- how many wait, or -1 if that cannot be told}.
local waiting = redis.pcall('ZCARD', KEYS[1] .. ':queue')
if type(waiting) == 'table' then waiting = -1 end
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), string.match(redis.call('GET', KEYS[2]) or '', '^[^ ]*'), waiting}
