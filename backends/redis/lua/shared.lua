-- Prelude of the scripts of shared holds, which are a port of the steps of package driver/holders. The hash KEYS[1]
-- has all that is known of the holders of a key:
--
--   ID                a hold
--   ID broken TOKEN   a hold that was broken: nobody finds it by its id, and it counts until its lease ends
--   ' token'          the last token
--   ' head'           until when the mark of the head of the queue counts, and the id of the head
--   ' watch'          who is told of changes: ' until number channel' for each, as text
--
-- No id has a blank. A value begins with a byte of 1, its version, and one that says what it is: 1 (a reader's hold),
-- 2 (a writer's), 3 (permits), 't', 'h' or 'w'. Then a hold has until, ttl, slot, token, weight and of, packed as
-- doubles as in limits.lua; 't' has the token, 'h' until and the id. A script that adds a hold looks at all values: to
-- match text would take five times as long. Times are microseconds.
--
-- A script that does not add a hold touches the hold of ARGV[1] (id) alone.
--
-- A lease is over at its until. No lease is longer than its ttl: one that is was made before the clock was set back,
-- and is shortened, so that it blocks nobody for long. So is the mark of a head.
local call, pack, unpackd, byte = redis.call, struct.pack, struct.unpack, string.byte
local key, id, HOLD, REPLY = KEYS[1], ARGV[1], '<BBdddddd', '<ddddd'
local corrupt = 'COORDCORRUPT the shared holds do not parse, or are of another version'
-- How long (ms) the hash outlives the last lease, at least, so that tokens rise if the clock is set back. It is set to
-- twice as long, so that it is seldom prolonged.
local KEPT = 3600000
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
