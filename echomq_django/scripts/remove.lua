#!lua flags=allow-oom
-- remove: pending | schedule | dead -> gone
--
-- Delete jobs that nobody is running. An active job is left alone: its worker could not be told. Whoever has seen the
-- jobs in one place names it: those that have left it meanwhile are left alone.
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
-- ARGV[1] place      where to take them from: "pending", lanes included, "schedule" or "dead"; "" for any of these
-- ARGV[2] before     leave alone jobs whose time there, run-at or of death, is later, unix ms; or "+inf"
-- ARGV[3..] ids (id)  each job
--
-- Returns a word for each id, in order: "ok"; "elsewhere" when it was left alone, is active, or waits for its
-- children; "gone".

local pending, active, schedule, dead, wake, job_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local lane_root, ring, paused, glimit, gactive = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local place, before = ARGV[1], tonumber(ARGV[2]) or math.huge
local ids = groups(3, 1)

demand("zset", active, schedule, dead)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)

-- The key from which a job is taken. Pending is scored by priority: there it has no time to be held against.
local function home_of(id, group)
    for _, each in ipairs({
        { "pending", pending, math.huge }, { "pending", group and lane_of(line, group) or pending, math.huge },
        { "schedule", schedule, before }, { "dead", dead, before },
    }) do
        local name, key, latest = unpack(each)
        local score = (place == "" or place == name) and tonumber(redis.call("ZSCORE", key, id))
        if score and score <= latest then
            return key
        end
    end
end

local words, found, seen = {}, {}, {}
for i, entry in ipairs(ids) do
    local id = entry[1]
    local fields = not seen[id] and read(job_root, id)
    local group = fields and fields[3]
    if group then
        demand_lane(line, group)
    end
    local home = not seen[id] and not redis.call("ZSCORE", active, id) and home_of(id, group)
    if home then
        -- A listed id is removed even when its row is missing: else nobody could ever be rid of it.
        words[i], seen[id] = "ok", true
        found[#found + 1] = { id, group, home }
    else
        words[i] = fields and "elsewhere" or "gone"
    end
end

for _, job in ipairs(found) do
    local id, group, home = job[1], job[2], job[3]
    if group and home == lane_of(line, group) then
        leave_lane(line, group, id)
    else
        redis.call("ZREM", home, id)
    end
    erase(job_root, id)
end
return words
