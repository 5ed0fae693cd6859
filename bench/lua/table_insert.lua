-- New entities, into as many partitions as there are threads, or into one.
local common, tables = require("common"), require("table_common")
local count, one = 0, os.getenv("PARTITION")

function request()
  count = count + 1
  local rk = common.run .. "-" .. thread_number .. "-" .. string.format("%08d", count)
  local pk = one or ("p" .. thread_number)
  return common.request("POST", tables.table, nil, tables.headers, tables.body(pk, rk))
end
