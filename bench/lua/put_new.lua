local common = require("common")
local count, body = 0, string.rep("x", 4096)
local headers = {["x-ms-blob-type"] = "BlockBlob", ["Content-Type"] = "application/octet-stream"}

function request()
  count = count + 1
  local name = "/bench/" .. common.run .. "-" .. thread_number .. "-" .. count
  return common.request("PUT", name, nil, headers, body)
end
