#!lua flags=allow-oom
-- claim: pending -> active
--
-- Take up to `limit` jobs, after promoting what is due. `attempts` grows with each claim and is the token that
-- fences it; `owner` is its nonce, since after a failover two claims can carry the same number.
--
-- Needs: prelude
-- KEYS[1] pending      zset  id -> -priority
-- KEYS[2] active       zset  id -> lease deadline, ms
-- KEYS[3] schedule     zset  id -> run-at, ms
-- KEYS[4] quarantine   zset  id -> when it was put aside, ms
-- KEYS[5] meta         hash  "paused" when the queue is
-- KEYS[6] wake         list  tokens for parked workers
-- KEYS[7] job_root     root  of the jobs' rows
-- KEYS[8] lane_root    root  of the lanes
-- KEYS[9] ring         list  lanes that may be served
-- KEYS[10] paused      set   lanes that are paused
-- KEYS[11] glimit      hash  lane -> most in flight
-- KEYS[12] gactive     hash  lane -> in flight
-- ARGV[1] limit        how many jobs, 1 to 500
-- ARGV[2] lease        ms
-- ARGV[3] owner        this claim's nonce
-- ARGV[4] promotions   how many due jobs to promote at most
--
-- Returns a word ("ok", or "paused"), ms until the next job is due (-1: none), how many are left in pending,
-- and the claimed jobs: id, token, payload, name; and, of a job that is not as most are, spared, stalled, max_attempts,
-- group, ms since first deferred, priority.

local pending, active, schedule, quarantine, meta, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local job_root, lane_root, ring, paused, glimit, gactive = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local limit, lease, owner, promotions = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

demand("zset", active, schedule, quarantine)
demand("hash", meta)
if redis.call("HEXISTS", meta, "paused") == 1 then
    return { "paused", -1, 0 }
end
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)
local now = clock()

-- Look at what is due and at the head of pending: the first `limit` of both together are among these.
local due_jobs, due_aside = due(line, schedule, now, promotions)
local judged, sound, aside = {}, 0, {}
local function judge(id)
    local fields = read(job_root, id, unpack(CLAIMED))
    if not fields or not fields[4] then
        return false
    end
    if fields[3] then
        demand_lane(line, fields[3])
    end
    judged[id] = fields
    return true
end
for _, job in ipairs(due_jobs) do
    judge(job[1])
end
local rank_from = 0
while sound < limit and rank_from < 500 do
    local ids = redis.call("ZRANGE", pending, rank_from, rank_from + limit - sound - 1)
    if #ids == 0 then
        break
    end
    for _, id in ipairs(ids) do
        if judge(id) then
            sound = sound + 1
        else
            aside[#aside + 1] = id
        end
    end
    rank_from = rank_from + #ids
end

put_aside(quarantine, schedule, now, due_aside)
put_aside(quarantine, pending, now, aside)
promote(line, schedule, due_jobs)
local claimed, ids, leases = {}, {}, {}
for _, id in ipairs(redis.call("ZRANGE", pending, 0, limit - 1)) do
    local fields = judged[id]
    -- Not judged: beyond the bound of one call, or promoted without a payload. The next call meets it first.
    if not fields then
        break
    end
    local token = string.format("%.0f", count(fields[1]) + 1)
    ids[#ids + 1] = id
    leases[#leases + 1] = now + lease
    leases[#leases + 1] = id
    redis.call("HSET", job_root .. id, "state", "active", "attempts", token, "owner", owner, "started_at", now)
    if fields[3] then
        occupy(line, fields[3], 1)
    end
    claimed[#claimed + 1] = told(id, token, fields, now)
end
if #ids > 0 then
    redis.call("ZREM", pending, unpack(ids))
    redis.call("ZADD", active, unpack(leases))
end

local left = redis.call("ZCARD", pending)
if left > 0 then
    -- Pass the baton: whoever is woken by it takes the next ones, and passes it on.
    wake_one(wake)
end
local next_due = tonumber(redis.call("ZRANGE", schedule, 0, 0, "WITHSCORES")[2])
return { "ok", next_due and math.max(next_due - now, 0) or -1, left, unpack(claimed) }
