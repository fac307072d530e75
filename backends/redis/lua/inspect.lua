-- Reply: {value of the lock KEYS[1] or "", its PTTL, value of its fence KEYS[2] or ""}.
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or ''}
