#!lua flags=allow-oom
-- revise: dead -> pending
--
-- Give a dead job a new life, as requeue does, with another payload. How far the old one had come goes with it: a
-- checkpoint says what is done of a payload.
--
-- Needs: prelude
-- KEYS[1] dead        zset  id -> time of death, ms
-- KEYS[2] pending     zset  id -> -priority
-- KEYS[3] quarantine  zset  id -> when it was put aside, ms
-- KEYS[4] wake        list  tokens for parked workers
-- KEYS[5] job_root    root  of the jobs' rows
-- KEYS[6] lane_root   root  of the lanes
-- KEYS[7] ring        list  lanes that may be served
-- KEYS[8] paused      set   lanes that are paused
-- KEYS[9] glimit      hash  lane -> most in flight
-- KEYS[10] gactive    hash  lane -> in flight
-- ARGV[1] id          the job's id
-- ARGV[2] payload     what it shall carry from now on
--
-- Returns "ok"; "elsewhere" when the job is not dead; "gone"; "unsound" when its row is missing or broken and it was
-- put aside.

local dead, pending, quarantine, wake, job_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lane_root, ring, paused, glimit, gactive = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local id, payload = ARGV[1], ARGV[2]

demand("zset", dead, quarantine)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)
local fields = read(job_root, id, "priority")
if not redis.call("ZSCORE", dead, id) then
    return fields and "elsewhere" or "gone"
end
if not fields then
    put_aside(quarantine, dead, clock(), { id })
    return "unsound"
end
if fields[3] then
    demand_lane(line, fields[3])
end

redis.call("HSET", job_root .. id, "payload", payload)
redis.call("HDEL", job_root .. id, "checkpoint", "progress")
revive(line, dead, id, fields)
ring_up(line)
return "ok"
