-- Takes of several limits, all or none.
-- KEYS: the state of each limit. ARGV[1]: of each limit, b for a bucket or w for a window;
-- the others: the numbers of each limit, as its script takes them, with one ask.
-- Reply, as doubles: n, delay, retry, valid, remaining, reset of each limit.
-- include limits.lua

-- The scripts of one limit are functions here and run on a buffer: what they write is kept, and read
-- again, until it is certain that all are granted.
local strings, hashes, emptied, writes, clock = {}, {}, {}, {}, nil

-- buffered gives the changes to the hash at key: fields that are false are deleted.
-- HLEN makes sure that it is a hash before anything is written anywhere.
local function buffered(key)
  if not hashes[key] then
    redis.call('HLEN', key)
    hashes[key] = {}
  end
  return hashes[key]
end

local function field(key, name)
  local h = buffered(key)
  if h[name] ~= nil then return h[name] end
  if emptied[key] then return false end
  return redis.call('HGET', key, name)
end

local function string_at(key)
  if strings[key] == nil then strings[key] = redis.call('GET', key) end
  return strings[key]
end

local buffer = {
  TIME = function()
    clock = clock or redis.call('TIME')
    return clock
  end,
  GET = string_at,
  GETRANGE = function(key, first, last)
    return string.sub(string_at(key) or '', first + 1, last + 1)
  end,
  SET = function(key, value) strings[key] = value end,
  -- A state is always written from its beginning on.
  SETRANGE = function(key, _, value)
    strings[key] = value .. string.sub(string_at(key) or '', #value + 1)
  end,
  HGET = field,
  HSET = function(key, name, value)
    if type(value) == 'number' then value = string.format('%.0f', value) end
    buffered(key)[name] = value
  end,
  HDEL = function(key, ...)
    local h = buffered(key)
    for _, name in ipairs({...}) do h[name] = false end
  end,
  DEL = function(...)
    for _, key in ipairs({...}) do
      strings[key], hashes[key], emptied[key] = false, {}, true
    end
  end,
  PEXPIRE = function() end,
}
local reads = {TIME = true, GET = true, GETRANGE = true, HGET = true}

call = function(command, ...)
  if not reads[command] then writes[#writes + 1] = {command, ...} end
  return buffer[command](...)
end

local function bucket(KEYS, ARGV)
-- include bucket.lua
end
local function window(KEYS, ARGV)
-- include window.lua
end

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
