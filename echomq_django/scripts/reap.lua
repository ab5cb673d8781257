#!lua flags=allow-oom
-- reap: active -> pending | schedule | dead
--
-- Take back jobs whose lease ran out. The first loss of a job sends it back to pending, the next ones to the
-- schedule (a job that kills its worker must not walk through the fleet), the last one to dead.
-- A server that is not the one of the last reap was away: live workers get one lease to extend first. A server that
-- was paused carries out what was sent before: too late, and before anybody could extend, so it is refused.
-- A lost lease is a failed attempt: it is recorded and counted as one.
--
-- Needs: prelude, flow
-- KEYS[1] active      zset  id -> lease deadline, ms
-- KEYS[2] pending     zset  id -> -priority
-- KEYS[3] schedule    zset  id -> run-at, ms
-- KEYS[4] dead        zset  id -> time of death, ms
-- KEYS[5] quarantine  zset  id -> when it was put aside, ms
-- KEYS[6] meta        hash  "reap_run", "reap_after"
-- KEYS[7] failed      hash  count
-- KEYS[8] wake        list  tokens for parked workers
-- KEYS[9] job_root    root  of the jobs' rows
-- KEYS[10] lane_root  root  of the lanes
-- KEYS[11] ring       list  lanes that may be served
-- KEYS[12] paused     set   lanes that are paused
-- KEYS[13] glimit     hash  lane -> most in flight
-- KEYS[14] gactive    hash  lane -> in flight
-- KEYS[15] outbox     list  words for parents in other queues
-- KEYS[16] minute_root  root  of the counts of a minute
-- ARGV[1] limit       how many jobs at most, up to 500
-- ARGV[2] lease       ms to wait for live workers after an outage
-- ARGV[3] keep        how many error records to keep
-- ARGV[4] spread      a fraction of 1, drawn anew for each call
-- ARGV[5] latest      server time, ms, after which the call comes too late; or ""
-- ARGV[6..] backoff (delay)  longest ms after each loss but the last: the job dies with one more
--
-- Returns "ok" or "waiting", and how many went to pending, to schedule, to dead, and into quarantine.

local active, pending, schedule, dead, quarantine = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local meta, failed, wake, job_root, lane_root = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local ring, paused, glimit, gactive = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local outbox, minute_root = KEYS[15], KEYS[16]
local limit, lease, keep, spread, latest = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local backoff = groups(6, 1)

demand("zset", active, schedule, dead, quarantine)
demand("hash", meta, failed)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)
local now = clock()
local minute = minute_of(minute_root, now)

local server = redis.pcall("INFO", "server")
-- Where INFO is forbidden an outage goes unseen, unless another reaper, which may ask, has seen it.
local run = type(server) == "string" and server:match("run_id:(%x+)")
local known = redis.call("HMGET", meta, "reap_run", "reap_after")
if run and known[1] ~= run then
    redis.call("HSET", meta, "reap_run", run, "reap_after", now + lease)
    return { "waiting", 0, 0, 0, 0 }
end
if now < (count(known[2]) or 0) or now > (latest or now) then
    return { "waiting", 0, 0, 0, 0 }
end

local sound, aside, freed = {}, {}, {}
for _, id in ipairs(redis.call("ZRANGE", active, "-inf", now, "BYSCORE", "LIMIT", 0, limit)) do
    local row = job_root .. id
    local fields = read(job_root, id, "spared", "stalled", "priority", "started_at", "parent", "parent_queue",
        "parent_policy")
    local kind = redis.call("TYPE", row .. ":errors").ok
    if fields and (kind == "list" or kind == "none") then
        if fields[3] then
            demand_lane(line, fields[3])
        end
        sound[#sound + 1] = { id, fields, parent_of(line, outbox, id, fields, 8, 8) }
    else
        aside[#aside + 1] = id
        if fields and fields[3] then
            demand_lane(line, fields[3])
            freed[#freed + 1] = fields[3]
        end
    end
end

local moved = { pending = 0, schedule = 0, dead = 0 }
put_aside(quarantine, active, now, aside)
if #sound > 0 then
    tick(minute, "failed", #sound)
end
for _, group in ipairs(freed) do
    vacate(line, group)
end
for _, job in ipairs(sound) do
    local id, fields = job[1], job[2]
    local row, group = job_root .. id, fields[3]
    local spared, losses = count(fields[4]) or 0, (count(fields[5]) or 0) + 1
    redis.call("ZREM", active, id)
    redis.call("HSET", row, "spared", spared + 1, "stalled", losses)
    record(row .. ":errors", string.format(
        '{"error":"crashed","attempt":%d,"worker":%s,"started_at":%d,"finished_at":%d}', count(fields[1]) - spared,
        cjson.encode(((fields[2] or ""):gsub(":%d+$", ""))), count(fields[7]) or 0, now), keep)
    if group then
        vacate(line, group)
    end
    if losses > #backoff then
        local reason = "crashed: its worker was lost " .. losses .. " times while running it"
        bury(dead, failed, id, row, now, reason)
        child_dead(line, outbox, dead, failed, job[3], now, reason)
        moved.dead = moved.dead + 1
    elseif losses == 1 then
        line_up(line, id, group, fields[6])
        moved.pending = moved.pending + 1
    else
        -- Jobs that were lost together must not come back together, or the one that kills its worker takes the
        -- same others along each time. Steps of the golden ratio put neighbours far apart.
        local share = (spread + moved.schedule * 0.6180339887) % 1
        redis.call("HSET", row, "state", "scheduled")
        appoint(schedule, wake, id, now + math.floor(backoff[losses][1] * share))
        moved.schedule = moved.schedule + 1
    end
end
ring_up(line)
return { "ok", moved.pending, moved.schedule, moved.dead, #aside }
