-- Each thread gets a message and deletes it, in turn; both count.
local common = require("common")
local path = "/" .. (os.getenv("QUEUE") or "bench") .. "/messages"
local id, receipt = nil, nil

local function quoted(text)
  return (text:gsub("[^%w%-%._~]", function(c) return string.format("%%%02X", c:byte()) end))
end

function request()
  if id then
    local target = path .. "/" .. id
    local query = "popreceipt=" .. quoted(receipt)
    id = nil
    return common.request("DELETE", target, query, {})
  end
  return common.request("GET", path, "visibilitytimeout=600", {})
end

function response(status, headers, body)
  if body and #body > 0 then
    id = body:match("<MessageId>(.-)</MessageId>")
    receipt = body:match("<PopReceipt>(.-)</PopReceipt>")
  end
end
