-- What the scripts share: the account's path and SAS, and a number for each thread.
local common = {}
local threads = 0

function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

common.sas = os.getenv("SAS")
common.base = os.getenv("BASE")
common.run = os.getenv("RUN") or "0"
common.version = "2021-12-02"

function common.request(method, path, query, headers, body)
  headers["x-ms-version"] = common.version
  local target = common.base .. path .. "?" .. (query and (query .. "&") or "") .. common.sas
  return wrk.format(method, target, headers, body)
end

return common
