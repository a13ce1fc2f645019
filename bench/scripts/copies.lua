-- Makes many keys out of a few: key i becomes a copy of one of KEYS, by turns.
-- KEYS: the keys to copy; ARGV: how many keys, their names as a format
local sources = #KEYS
for i = 0, ARGV[1] - 1 do
  redis.call('COPY', KEYS[i % sources + 1], string.format(ARGV[2], i), 'REPLACE')
end
return redis.status_reply('OK')
