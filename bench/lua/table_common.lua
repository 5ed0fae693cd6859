-- An entity of ten properties, about 300 bytes of JSON, and requests for the Table service.
local common = require("common")
local tables = {}

tables.table = "/" .. (os.getenv("TABLE") or "bench")
tables.headers = {
  ["Content-Type"] = "application/json",
  ["Accept"] = "application/json;odata=minimalmetadata",
  ["Prefer"] = "return-no-content",
}
tables.properties = '"name":"somebody or other","age":42,"height":1.83,"active":true,'
  .. '"joined@odata.type":"Edm.DateTime","joined":"2021-06-17T17:32:46.777543Z",'
  .. '"balance@odata.type":"Edm.Int64","balance":"1234567890123",'
  .. '"id@odata.type":"Edm.Guid","id":"c9da6455-213d-42c9-9a79-3e9149a57833",'
  .. '"city":"Paris","note":"a few words about it","level":7}'

function tables.body(pk, rk)
  return '{"PartitionKey":"' .. pk .. '","RowKey":"' .. rk .. '",' .. tables.properties
end

function tables.entity(pk, rk)
  return tables.table .. "(PartitionKey='" .. pk .. "',RowKey='" .. rk .. "')"
end

function tables.copy(more)
  local headers = {}
  for name, value in pairs(tables.headers) do headers[name] = value end
  for name, value in pairs(more or {}) do headers[name] = value end
  return headers
end

return tables
