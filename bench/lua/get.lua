local common = require("common")

function request()
  return common.request("GET", "/bench/get", nil, {})
end
