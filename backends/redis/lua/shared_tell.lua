-- Tell those in watch, which is false if there are none, that somebody else may be granted more now. A user who may not
-- publish tells nobody: the head of the queue asks three times a second all the same.
if watch then
  for till, number, channel in string.gmatch(watch, ' (%d+) (%d+) (%S+)') do
    if tonumber(till) > now then redis.pcall('PUBLISH', channel, number) end
  end
end
