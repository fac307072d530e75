-- Takes of several limits, all or none. The parts below are those of one limit, each
-- algorithm's in a function. Here they run on a buffer: what they write is kept,
-- and read again, until it is certain that all are granted.
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
  HMGET = function(key, ...)
    local values = {}
    for i, name in ipairs({...}) do values[i] = field(key, name) end
    return values
  end,
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
local reads = {TIME = true, GET = true, GETRANGE = true, HGET = true, HMGET = true}

call = function(command, ...)
  if not reads[command] then writes[#writes + 1] = {command, ...} end
  return buffer[command](...)
end
