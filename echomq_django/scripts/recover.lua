#!lua flags=no-writes
-- recover: active -> active
--
-- Find the jobs of a claim whose reply was lost. A claim is never sent again: it would take other jobs.
-- Reads one page of active, the latest deadlines first.
--
-- Needs: prelude
-- KEYS[1] active    zset  id -> lease deadline, ms
-- KEYS[2] job_root  root  of the jobs' rows
-- ARGV[1] owner     the nonce of the lost claim
-- ARGV[2] first     rank at which the page begins
-- ARGV[3] size      ids on a page, up to 500
--
-- Returns how many ids were on the page, and the jobs found, as claim does.

local active, job_root = KEYS[1], KEYS[2]
local owner, first, size = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = clock()
local ids = redis.call("ZRANGE", active, first, first + size - 1, "REV")
local found = {}
for _, id in ipairs(ids) do
    local fields = read(job_root, id, unpack(CLAIMED))
    if fields and fields[4] and fields[2] == owner then
        found[#found + 1] = told(id, fields[1], fields, now)
    end
end
return { #ids, unpack(found) }
