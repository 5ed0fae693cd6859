-- Entity group transactions of a hundred inserts, each into a partition of its own.
local common, tables = require("common"), require("table_common")
local count, pieces, places = 0, {}, {}
local headers = {["Content-Type"] = "multipart/mixed; boundary=batch_1"}

local function add(text) pieces[#pieces + 1] = text end

add("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n")
for n = 0, 99 do
  add("--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    .. "POST " .. wrk.scheme .. "://" .. wrk.host .. ":" .. wrk.port .. common.base .. tables.table
    .. " HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
    .. "Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\n\r\n"
    .. '{"PartitionKey":"')
  add("")
  places[#places + 1] = #pieces
  add('","RowKey":"' .. string.format("%03d", n) .. '",' .. tables.properties .. "\r\n")
end
add("--changeset_1--\r\n--batch_1--\r\n")

function request()
  count = count + 1
  local pk = "b" .. common.run .. "-" .. thread_number .. "-" .. count
  for _, place in ipairs(places) do pieces[place] = pk end
  return common.request("POST", "/$batch", nil, headers, table.concat(pieces))
end
