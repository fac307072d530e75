-- KEYS: the state of each limit. ARGV[1]: of each limit, b for a bucket or w for a window;
-- the others: the numbers of each limit, as its script takes them, with one ask.
-- Reply, as doubles: n, delay, retry, valid, remaining, reset of each limit.
local taken, denied = {}, false
for i = 1, #ARGV[1] do
  local take = string.sub(ARGV[1], i, i) == 'b' and bucket or window
  taken[i] = take({KEYS[i]}, {ARGV[i + 1]})
  if type(taken[i]) == 'table' then return taken[i] end -- an error
  if unpackd('<d', taken[i]) < unpackd('<d', ARGV[i + 1], 33) then denied = true end
end

if not denied then
  for _, w in ipairs(writes) do redis.call(unpack(w)) end
  return table.concat(taken)
end

-- Nothing is taken. What there is then is what each limit answers to a peek; when
-- to come again it has said already.
strings, hashes, emptied = {}, {}, {}
for i = 1, #ARGV[1] do
  local take = string.sub(ARGV[1], i, i) == 'b' and bucket or window
  local peek = string.sub(ARGV[i + 1], 1, 24) .. pack('<dddd', 0, 0, 0, 1)
  local there = take({KEYS[i]}, {peek})
  taken[i] = pack('<dd', 0, 0) .. string.sub(taken[i], 17, 24) .. pack('<d', 0) .. string.sub(there, 33)
end
return table.concat(taken)
