-- Each thread has one connection and one blob, and overwrites it under the ETag it got last.
local common = require("common")
local body, etag = string.rep("x", 4096), nil

function request()
  local headers = {["x-ms-blob-type"] = "BlockBlob", ["Content-Type"] = "application/octet-stream"}
  if etag then headers["If-Match"] = etag end
  return common.request("PUT", "/bench/conditional-" .. thread_number, nil, headers, body)
end

function response(status, headers)
  etag = headers["ETag"] or headers["etag"]
end
