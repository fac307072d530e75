-- Take the lock KEYS[1], with its fence KEYS[2], for ARGV[1] (id) for ARGV[2] (ms), if it is offered to
-- ARGV[1]. Reply: see confirm in grant.lua; {0} if it is not offered.
-- include grant.lua
return confirm(ARGV[1], ARGV[2]) or {0}
