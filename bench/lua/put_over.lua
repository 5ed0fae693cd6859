local common = require("common")
local count, body = 0, string.rep("x", 4096)
local headers = {["x-ms-blob-type"] = "BlockBlob", ["Content-Type"] = "application/octet-stream"}

function request()
  count = (count + 1) % 64
  return common.request("PUT", "/bench/over-" .. thread_number .. "-" .. count, nil, headers, body)
end
