#!lua flags=no-writes
-- census: dead -> nowhere
--
-- Tell what the latest dead are, for people who choose among them. Moves nothing.
--
-- Needs: prelude
-- KEYS[1] dead      zset  id -> time of death, ms
-- KEYS[2] job_root  root  of the jobs' rows
-- ARGV[1] size      how many to look at, up to 1000
--
-- Returns the name and the beginning of the last error of each, the latest first, in one flat list; texts of no
-- length where a row has none.

local dead, job_root = KEYS[1], KEYS[2]
local size = ARGV[1]

local told = {}
for _, id in ipairs(redis.call("ZRANGE", dead, 0, size - 1, "REV")) do
    local fields = read(job_root, id, "name", "last_error") or {}
    told[#told + 1] = fields[4] or ""
    -- Enough for its head; an error of another program may be of any length.
    told[#told + 1] = (fields[5] or ""):sub(1, 500)
end
return told
