-- The same request each time, written once: what wrk itself does for a plain URL, such as nginx's.
local common = require("common")

function init(args)
  wrk.path = common.base .. "/bench/get?" .. common.sas
  wrk.headers["x-ms-version"] = common.version
end
