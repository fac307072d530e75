-- Shared by the scripts of limits, which are a port of package driver/limits:
-- the same names, the same order, the same results to the microsecond. All
-- numbers are integers of at most 2^53, which Lua's doubles hold exactly.
local MAX = 9007199254740992

-- div is a/b rounded down. fmod is exact, where a/b may round up.
local function div(a, b) return (a - math.fmod(a, b)) / b end

local function ceildiv(a, b)
  local r = math.fmod(a, b)
  if r == 0 then return a / b end
  return (a - r) / b + 1
end

-- mulmax is a*b, or MAX if that is less.
local function mulmax(a, b)
  if b ~= 0 and a > div(MAX, b) then return MAX end
  return a * b
end

-- clock is the server's time in microseconds.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- px is an expiry in the milliseconds that Redis wants.
local function px(us) return ceildiv(us, 1000) end

local corrupt = 'COORDCORRUPT the state of a limit does not parse'
