#!lua flags=allow-oom
-- defer: active -> schedule
--
-- Put a job off that this worker does not know how to run: a deploy is under way. It costs no attempt.
--
-- Needs: prelude
-- KEYS[1] active     zset  id -> lease deadline, ms
-- KEYS[2] schedule   zset  id -> run-at, ms
-- KEYS[3] pending    zset  id -> -priority
-- KEYS[4] wake       list  tokens for parked workers
-- KEYS[5] job_root   root  of the jobs' rows
-- KEYS[6] lane_root  root  of the lanes
-- KEYS[7] ring       list  lanes that may be served
-- KEYS[8] paused     set   lanes that are paused
-- KEYS[9] glimit     hash  lane -> most in flight
-- KEYS[10] gactive   hash  lane -> in flight
-- ARGV[1] id         the job's id
-- ARGV[2] token      the claim's attempts value
-- ARGV[3] owner      the claim's nonce
-- ARGV[4] delay      ms until the job is looked at again
-- ARGV[5] reason     one line, for last_error
--
-- Returns "ok", or "lost" when this claim no longer holds the job.

local active, schedule, pending, wake, job_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lane_root, ring, paused, glimit, gactive = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local id, token, owner, delay, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

demand("zset", active, schedule)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)
local row = job_root .. id
local fields = read(job_root, id, "spared", "deferred_at")
if not fields or not holds(fields, token, owner) or not redis.call("ZSCORE", active, id) then
    return "lost"
end
local group = fields[3]
if group then
    demand_lane(line, group)
end

local now = clock()
redis.call("ZREM", active, id)
if group then
    vacate(line, group)
end
-- The first deferral is kept: a job that no worker has known for a day is dead, not deferred.
redis.call("HSET", row, "state", "scheduled", "spared", (count(fields[4]) or 0) + 1,
    "deferred_at", count(fields[5]) or now, "last_error", reason)
appoint(schedule, wake, id, now + delay)
return "ok"
