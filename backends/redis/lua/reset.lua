-- Forget the state of a limit, KEYS[1] and KEYS[2]. Reply: {how many there were}.
return {redis.call('DEL', KEYS[1], KEYS[2])}
