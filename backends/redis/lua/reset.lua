-- Forget the state of a limit, KEYS[1], and the hash beside it. Reply: {how many states there were}.
redis.pcall('DEL', KEYS[1] .. ':h') -- is refused if it is not there, while the slot moves
return {redis.call('DEL', KEYS[1])}
