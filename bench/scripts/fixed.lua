-- Fixed window: count, and let the first request of a window say when it ends.
-- KEYS[1] the counter; ARGV: window in seconds, limit
local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
if count > tonumber(ARGV[2]) then
  return 0
end
return 1
