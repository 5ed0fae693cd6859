-- Insert Or Replace over a thousand entities.
local common, tables = require("common"), require("table_common")
local headers = tables.copy()
headers["Prefer"] = nil

function request()
  local rk = string.format("%08d", math.random(0, 999))
  local body = tables.body("seen", rk)
  return common.request("PUT", tables.entity("seen", rk), nil, headers, body)
end
