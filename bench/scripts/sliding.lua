-- Sliding window log: one member of a sorted set for each request, its score the time in ms.
-- KEYS[1] the log; ARGV: window in milliseconds, limit
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window = tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
-- Scripts run one after the other, each for longer than a microsecond: the time is unique.
redis.call('ZADD', KEYS[1], now, time[1] .. time[2])
redis.call('EXPIRE', KEYS[1], math.ceil(window / 1000))
return 1
