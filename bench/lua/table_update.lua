-- Each thread has one connection and one entity, and merges into it under the ETag it got last.
local common, tables = require("common"), require("table_common")
local etag

function request()
  local headers = tables.copy({["If-Match"] = etag or "*"})
  headers["Prefer"] = nil
  local path = tables.entity("loop", tostring(thread_number))
  return common.request("MERGE", path, nil, headers, '{"age":43}')
end

function response(status, headers)
  etag = headers["ETag"] or headers["etag"]
end
