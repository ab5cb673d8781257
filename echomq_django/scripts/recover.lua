#!lua flags=no-writes
-- recover: active -> active
--
-- Find the jobs of a claim whose reply was lost. A claim is never sent again: it would take other jobs.
-- Reads one page of active, the latest deadlines first. A deadline that is not the claim's own means that EchoMQ, which
-- leaves the owner as it was, has claimed the job since.
--
-- Needs: prelude
-- KEYS[1] active    zset  id -> lease deadline, ms
-- KEYS[2] job_root  root  of the jobs' rows
-- ARGV[1] owner     the nonce of the lost claim
-- ARGV[2] lease     ms, as it was claimed for
-- ARGV[3] first     rank at which the page begins
-- ARGV[4] size      ids on a page, up to 500
--
-- Returns how many ids were on the page, and the jobs found, as claim does.

local active, job_root = KEYS[1], KEYS[2]
local owner, lease, first, size = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local now = clock()
local listed = redis.call("ZRANGE", active, first, first + size - 1, "REV", "WITHSCORES")
local found = {}
for at = 1, #listed, 2 do
    local id, deadline = listed[at], tonumber(listed[at + 1])
    local fields = read(job_root, id, unpack(CLAIMED))
    if fields and fields[4] and fields[2] == owner and deadline == (count(fields[10]) or 0) + lease then
        found[#found + 1] = told(id, fields[1], fields, now)
    end
end
return { #listed / 2, unpack(found) }
