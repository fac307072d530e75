-- The prelude of the scripts of limits, which are a port of package driver/limits:
-- the same names, the same order, the same results to the microsecond. All
-- numbers are integers of at most 2^53, which Lua's doubles hold exactly.
--
-- What is stored, asked and replied is packed as doubles, because to format and
-- parse decimals, and to set an expiry with every write, would cost several
-- times the decision itself. A state keeps the time of its expiry and sets a
-- later one, twice as far ahead as needed, only when it is used up: it then is
-- as good as fresh long before it goes, and costs one SETRANGE. Functions that
-- the usual case does not need are made where they are needed: to make one
-- takes longer than most of what they do.
--
-- The hash beside a state is seldom there. Its name is made where it is needed, and is not among
-- KEYS: on a cluster a slot that moves would answer TRYAGAIN for as long as it is missing.
--
-- A script reads the state, decides, stores the state if it is dirty, of use for us microseconds,
-- and replies.
local call, pack, unpackd = redis.call, struct.pack, struct.unpack
local MAX = 9007199254740992
local VERSION = 1 -- of what is stored, its first byte

-- a/b rounded down, of a from 0 to MAX and b from 1 on, is (a - a % b) / b. Between a/b and
-- the next integer is 1/b at least, more than half of what doubles of that size are apart:
-- the quotient does not round up to it, and % is exact. It is an instruction; to call
-- math.fmod, min or max takes as long as five of them. A product of two integers is
-- exact up to MAX, and beyond it at least MAX: where MAX bounds it, that is enough.
local function ceildiv(a, b)
  local r = a % b
  if r == 0 then return a / b end
  return (a - r) / b + 1
end

-- The clock of who asks may be behind that of the last grant, for a server's clock can be set back.
-- A state that is ahead by more than the time in which the limit comes back, and this, was made by a clock
-- that was wrong, and is to be gone after that time.
local MAXLAG = 60000000
-- How many permits one sub-window counts: driver.MaxRate.
local MAXCOUNT = 1000000000000
-- How long a charge can make a limit wait beyond the time in which it comes back: driver.MaxPer.
local MAXDEBT = 31622400000000
local function far(key, us)
  local left = ceildiv(us, 1000) + 1000
  if redis.call('PTTL', key) > left then redis.call('PEXPIRE', key, left) end
end

local corrupt = 'COORDCORRUPT the state of a limit does not parse'
