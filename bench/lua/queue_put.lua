local common = require("common")
local text = string.rep("x", 1024)
local body = "<QueueMessage><MessageText>" .. text .. "</MessageText></QueueMessage>"
local path = "/" .. (os.getenv("QUEUE") or "bench") .. "/messages"

function request()
  return common.request("POST", path, nil, {["Content-Type"] = "application/xml"}, body)
end
