-- Reply: {the clock in microseconds, the fields and values of the hash KEYS[1]}.
-- include shared.lua
return {now, call('HGETALL', key)}
