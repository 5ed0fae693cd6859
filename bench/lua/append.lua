-- Appends to sixteen blobs of each thread's own: a blob takes 50,000 blocks.
local common = require("common")
local count, body = 0, string.rep("x", 4096)
local headers = {["Content-Type"] = "application/octet-stream"}

function request()
  count = (count + 1) % 16
  local path = "/bench/append-" .. thread_number .. "-" .. count
  return common.request("PUT", path, "comp=appendblock", headers, body)
end
