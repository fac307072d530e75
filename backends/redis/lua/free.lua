-- The part of wait.lua for a lock that nobody holds, or whose holder asks again: it is within
-- an if, and goes on where somebody else is offered it.
if holder then return grant(id, call('PTTL', lock)) end -- its fence was deleted: it is seeded again

local place = call('ZSCORE', queue, id)
if place and place - silent >= 0 then call('ZINCRBY', queue, -silent, id) end
sweep()
local passed, more = pass(id)
if not more and (not passed or passed == id) then return grant(id, ttl) end
