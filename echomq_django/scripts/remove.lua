#!lua flags=allow-oom
-- remove: pending | schedule | dead -> gone
--
-- Delete jobs that nobody is running. An active job is left alone: its worker could not be told.
--
-- Needs: prelude
-- KEYS[1] pending    zset  id -> -priority
-- KEYS[2] active     zset  id -> lease deadline, ms
-- KEYS[3] schedule   zset  id -> run-at, ms
-- KEYS[4] dead       zset  id -> time of death, ms
-- KEYS[5] wake       list  tokens for parked workers
-- KEYS[6] job_root   root  of the jobs' rows
-- KEYS[7] lane_root  root  of the lanes
-- KEYS[8] ring       list  lanes that may be served
-- KEYS[9] paused     set   lanes that are paused
-- KEYS[10] glimit    hash  lane -> most in flight
-- KEYS[11] gactive   hash  lane -> in flight
-- ARGV[1..] ids (id)  each job
--
-- Returns a word for each id, in order: "ok"; "elsewhere" when it is active, or waits for its children; "gone".

local pending, active, schedule, dead, wake, job_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local lane_root, ring, paused, glimit, gactive = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local ids = groups(1, 1)

demand("zset", active, schedule, dead)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)

local words, found, seen = {}, {}, {}
for i, entry in ipairs(ids) do
    local id = entry[1]
    local fields = not seen[id] and read(job_root, id)
    local group = fields and fields[3]
    if group then
        demand_lane(line, group)
    end
    local place = false
    local running = seen[id] or redis.call("ZSCORE", active, id)
    for _, key in ipairs({ pending, schedule, dead, group and lane_of(line, group) or nil }) do
        place = place or (not running and redis.call("ZSCORE", key, id) and key)
    end
    if place then
        -- A listed id is removed even when its row is missing: else nobody could ever be rid of it.
        words[i], seen[id] = "ok", true
        found[#found + 1] = { id, group, place }
    else
        words[i] = fields and "elsewhere" or "gone"
    end
end

for _, job in ipairs(found) do
    local id, group, place = job[1], job[2], job[3]
    if group and place == lane_of(line, group) then
        leave_lane(line, group, id)
    else
        redis.call("ZREM", place, id)
    end
    erase(job_root, id)
end
return words
