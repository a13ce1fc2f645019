-- What RL.STATS counts, as a flat list of names and values: for a Prometheus exporter that runs
-- scripts. It needs the rights +eval and +rl.stats, and no keys.
local flat = {}
local stats = redis.call('RL.STATS')
for i = 1, #stats, 2 do
  local name, value = string.gsub(stats[i], '%.', '_'), stats[i + 1]
  if type(value) == 'table' then
    for j = 1, #value, 2 do
      flat[#flat + 1] = name .. '_' .. value[j]
      flat[#flat + 1] = string.format('%d', value[j + 1])
    end
  else
    flat[#flat + 1] = name
    flat[#flat + 1] = string.format('%d', value)
  end
end
return flat
