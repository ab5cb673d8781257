#!lua flags=allow-oom
-- requeue: dead -> pending
--
-- Give dead jobs a new life: all attempts so far are spared, crashes are forgotten, the error records stay.
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
-- ARGV[1] before      leave alone jobs that died later than this, unix ms; or "+inf"
-- ARGV[2..] ids (id)  each job
--
-- Returns a word for each id, in order: "ok"; "elsewhere" when it is not among those dead; "gone"; "unsound" when
-- its row is missing or broken and it was put aside.

local dead, pending, quarantine, wake, job_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lane_root, ring, paused, glimit, gactive = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local before = tonumber(ARGV[1]) or math.huge
local ids = groups(2, 1)

demand("zset", dead, quarantine)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)

local words, sound, aside, seen = {}, {}, {}, {}
for i, entry in ipairs(ids) do
    local id = entry[1]
    local died = not seen[id] and tonumber(redis.call("ZSCORE", dead, id))
    local fields = read(job_root, id, "priority")
    if not died or died > before then
        words[i] = fields and "elsewhere" or "gone"
    elseif not fields then
        words[i], seen[id] = "unsound", true
        aside[#aside + 1] = id
    else
        words[i], seen[id] = "ok", true
        if fields[3] then
            demand_lane(line, fields[3])
        end
        sound[#sound + 1] = { id, fields }
    end
end

put_aside(quarantine, dead, clock(), aside)
for _, job in ipairs(sound) do
    revive(line, dead, job[1], job[2])
end
ring_up(line)
return words
