-- Prelude of the scripts of shared holds, which are a port of the steps of package driver/holders. The hash KEYS[1]
-- has all that is known of the holders of a key:
--
--   ID                a hold: mode (1 reads, 2 writes, 3 has permits), until, ttl, slot, token, weight, of
--   ID broken TOKEN   a hold that was broken: nobody finds it by its id, and it counts until its lease ends
--   ' token'          the last token
--   ' head'           until when the mark of the head of the queue counts, and the id of the head
--   ' watch'          who is told of changes: ' until number channel' for each, as text
--   ' sums'           what the live holds come to: as of when, until when at least, how many they are, how many of them
--                     write, their permits, and the least bound on these. It saves who is refused a look at all holds.
--                     Without it the next request looks
--
-- No id has a blank. A value begins with a byte of 2, its version. Numbers are packed as doubles as in limits.lua, and
-- a mode is a byte. Times are microseconds.
--
-- A script that does not add a hold touches the hold of ARGV[1] (id) alone.
local call, pack, unpackd, byte = redis.call, struct.pack, struct.unpack, string.byte
local key, id, HOLD, SUMS, REPLY = KEYS[1], ARGV[1], '<BBdddddd', '<Bdddddd', '<ddddd'
local corrupt = 'COORDCORRUPT the shared holds do not parse, or are of another version than 2: stop the clients of the other version, and remove them'
-- How long (ms) the hash outlives the last lease, at least, so that tokens rise if the clock is set back. It is set to
-- twice as long, so that it is seldom prolonged.
local KEPT = 3600000
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- readhold gives the numbers of a hold. A lease that is longer than its ttl was made before the clock was set back. It is
-- taken to be shorter, so that it blocks nobody for long.
local function readhold(value)
  if byte(value) ~= 2 or #value ~= 50 then error(corrupt, 0) end
  local _, mode, till, ttl, slot, token, weight, of = unpackd(HOLD, value)
  if mode < 1 or mode > 3 then error(corrupt, 0) end
  if till > now + ttl + 1 then till = now + ttl + 1 end
  return mode, till, ttl, slot, token, weight, of
end

-- readhead gives until when the mark of a head counts, and the id.
local function readhead(value)
  if byte(value) ~= 2 or #value < 10 then error(corrupt, 0) end
  return unpackd('<d', value, 2), string.sub(value, 10)
end
