#!lua flags=allow-oom
-- release: active -> pending
--
-- Give back jobs that were claimed and not finished, by a worker that stops. It costs no attempt.
--
-- Needs: prelude
-- KEYS[1] active     zset  id -> lease deadline, ms
-- KEYS[2] pending    zset  id -> -priority
-- KEYS[3] wake       list  tokens for parked workers
-- KEYS[4] job_root   root  of the jobs' rows
-- KEYS[5] lane_root  root  of the lanes
-- KEYS[6] ring       list  lanes that may be served
-- KEYS[7] paused     set   lanes that are paused
-- KEYS[8] glimit     hash  lane -> most in flight
-- KEYS[9] gactive    hash  lane -> in flight
-- ARGV[1..] claims (id, token, owner)  each claim
--
-- Returns a word for each claim, in order: "ok", or "lost" when it no longer holds its job.

local active, pending, wake, job_root, lane_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ring, paused, glimit, gactive = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local claims = groups(1, 3)

demand("zset", active)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)

local words, held, seen = {}, {}, {}
for i, claim in ipairs(claims) do
    local id, token, owner = claim[1], claim[2], claim[3]
    local fields = not seen[id] and read(job_root, id, "spared", "priority")
    words[i] = "lost"
    if fields and holds(fields, token, owner) and redis.call("ZSCORE", active, id) then
        words[i], seen[id] = "ok", true
        if fields[3] then
            demand_lane(line, fields[3])
        end
        held[#held + 1] = { id, count(fields[4]) or 0, fields[3], fields[5] }
    end
end

for _, job in ipairs(held) do
    local id, spared, group, priority = job[1], job[2], job[3], job[4]
    redis.call("ZREM", active, id)
    redis.call("HSET", job_root .. id, "spared", spared + 1)
    if group then
        occupy(line, group, -1)
    end
    line_up(line, id, group, priority)
end
ring_up(line)
return words
