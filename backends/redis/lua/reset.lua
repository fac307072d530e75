-- Forget the state of a limit, KEYS[1], and the hash beside it. Reply: {how many states there were}. What is
-- not a state of VERSION, see limits.lua, stays.
local first = redis.call('GETRANGE', KEYS[1], '0', '0')
if first == '' then return {0} end
if first ~= '\1' then return redis.error_reply('COORDCORRUPT the state of a limit does not parse') end
redis.pcall('DEL', KEYS[1] .. ':h') -- is refused if it is not there, while the slot moves
return {redis.call('DEL', KEYS[1])}
