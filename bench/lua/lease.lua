-- Each thread acquires and releases a lease on its own blob, in turn.
local common = require("common")
local held = false
local id = nil

function request()
  id = id or string.format("00000000-0000-0000-0000-%012d", thread_number + 1)
  local headers = {}
  if held then
    headers["x-ms-lease-action"] = "release"
    headers["x-ms-lease-id"] = id
  else
    headers["x-ms-lease-action"] = "acquire"
    headers["x-ms-lease-duration"] = "60"
    headers["x-ms-proposed-lease-id"] = id
  end
  held = not held
  return common.request("PUT", "/bench/lease-" .. thread_number, "comp=lease", headers)
end
