-- Writes 4 KiB somewhere in one of eight page blobs of 64 MiB.
local common = require("common")
local body = string.rep("x", 4096)

function request()
  local start = math.random(0, 16383) * 4096
  local headers = {
    ["x-ms-page-write"] = "update",
    ["x-ms-range"] = "bytes=" .. start .. "-" .. (start + 4095),
  }
  return common.request("PUT", "/bench/pages-" .. math.random(0, 7), "comp=page", headers, body)
end
