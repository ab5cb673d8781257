#!lua flags=allow-oom
-- retry: active -> schedule | dead
--
-- Settle a failed attempt: again later, or dead when the attempts that count have reached the maximum.
-- Accepted from pending too: the lease ran out, nobody has claimed the job since, and the failure is real.
--
-- Needs: prelude, flow
-- KEYS[1] active     zset  id -> lease deadline, ms
-- KEYS[2] pending    zset  id -> -priority
-- KEYS[3] schedule   zset  id -> run-at, ms
-- KEYS[4] dead       zset  id -> time of death, ms
-- KEYS[5] failed     hash  count
-- KEYS[6] wake       list  tokens for parked workers
-- KEYS[7] job_root   root  of the jobs' rows
-- KEYS[8] errors     list  the job's error records, newest last
-- KEYS[9] lane_root  root  of the lanes
-- KEYS[10] ring      list  lanes that may be served
-- KEYS[11] paused    set   lanes that are paused
-- KEYS[12] glimit    hash  lane -> most in flight
-- KEYS[13] gactive   hash  lane -> in flight
-- KEYS[14] outbox    list  words for parents in other queues
-- KEYS[15] minute_root  root  of the counts of a minute
-- ARGV[1] id         the job's id
-- ARGV[2] token      the claim's attempts value
-- ARGV[3] owner      the claim's nonce
-- ARGV[4] delay      ms until the next attempt
-- ARGV[5] maximum    attempts after which the job dies; 0 buries it at once
-- ARGV[6] reason     one line, for last_error
-- ARGV[7] entry      the error record, JSON
-- ARGV[8] keep       how many error records to keep
--
-- Returns "scheduled", "dead", "lost" when this claim no longer holds the job, or "gone".

local active, pending, schedule, dead, failed, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local job_root, errors = KEYS[7], KEYS[8]
local lane_root, ring, paused, glimit, gactive = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local outbox, minute_root = KEYS[14], KEYS[15]
local id, token, owner, delay, maximum = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local reason, entry, keep = ARGV[6], ARGV[7], ARGV[8]

demand("zset", active, schedule, dead)
demand("hash", failed)
demand("list", errors)
local now = clock()
local minute = minute_of(minute_root, now)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)

local row = job_root .. id
local fields = read(job_root, id, "spared", "parent", "parent_queue", "parent_policy")
if not fields then
    return "gone"
end
local group = fields[3]
if group then
    demand_lane(line, group)
end
local was_active = redis.call("ZSCORE", active, id)
local waits = redis.call("ZSCORE", pending, id) or (group and redis.call("ZSCORE", lane_of(line, group), id))
if not holds(fields, token, owner) or not (was_active or waits) then
    return "lost"
end
local kin = parent_of(line, outbox, id, fields, 5, 8)

redis.call("ZREM", active, id)
redis.call("ZREM", pending, id)
if group then
    leave_lane(line, group, id)
    if was_active then
        vacate(line, group)
    end
end
redis.call("HDEL", row, "deferred_at") -- it was known after all
record(errors, entry, keep)
tick(minute, "failed", 1)
if count(fields[1]) - (count(fields[4]) or 0) >= maximum then
    bury(dead, failed, id, row, now, reason)
    child_dead(line, outbox, dead, failed, kin, now, reason)
    ring_up(line)
    return "dead"
end
redis.call("HSET", row, "state", "scheduled", "last_error", reason)
appoint(schedule, wake, id, now + delay)
return "scheduled"
