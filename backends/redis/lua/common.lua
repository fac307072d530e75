-- Shared by the scripts of limits, which are a port of package driver/limits:
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
-- A script is this file, one that reads the state, one that decides, and one that
-- stores the state if it is dirty, of use for us microseconds, and replies.
local call, pack, unpackd = redis.call, struct.pack, struct.unpack
local min, max, fmod = math.min, math.max, math.fmod
local MAX = 9007199254740992

-- div is a/b rounded down. fmod is exact, where a/b may round up.
local function div(a, b) return (a - fmod(a, b)) / b end

local function ceildiv(a, b)
  local r = fmod(a, b)
  if r == 0 then return a / b end
  return (a - r) / b + 1
end

-- mulmax is a*b, or MAX if that is less.
local function mulmax(a, b)
  if b ~= 0 and a > div(MAX, b) then return MAX end
  return a * b
end

local corrupt = 'COORDCORRUPT the state of a limit does not parse'
