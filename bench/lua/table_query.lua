-- All hundred entities of one partition.
local common, tables = require("common"), require("table_common")

function request()
  local pk = string.format("q%05d", math.random(0, tonumber(os.getenv("PARTITIONS") or "10") - 1))
  local query = "$filter=PartitionKey%20eq%20'" .. pk .. "'"
  return common.request("GET", tables.table .. "()", query, tables.headers)
end
