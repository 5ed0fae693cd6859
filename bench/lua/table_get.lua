-- One entity out of a thousand, by its keys.
local common, tables = require("common"), require("table_common")

function request()
  local rk = string.format("%08d", math.random(0, 999))
  return common.request("GET", tables.entity("seen", rk), nil, tables.headers)
end
