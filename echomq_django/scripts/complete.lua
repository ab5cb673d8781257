#!lua flags=allow-oom
-- complete: active -> gone
--
-- Retire jobs whose work is done. Accepted from the latest claimant wherever the id sits by now (reaped, buried or
-- requeued meanwhile): the work is done and must not be done twice, so every place is cleared.
--
-- Needs: prelude, flow
-- KEYS[1] active     zset  id -> lease deadline, ms
-- KEYS[2] pending    zset  id -> -priority
-- KEYS[3] schedule   zset  id -> run-at, ms
-- KEYS[4] dead       zset  id -> time of death, ms
-- KEYS[5] completed  hash  count
-- KEYS[6] wake       list  tokens for parked workers
-- KEYS[7] job_root   root  of the jobs' rows
-- KEYS[8] lane_root  root  of the lanes
-- KEYS[9] ring       list  lanes that may be served
-- KEYS[10] paused    set   lanes that are paused
-- KEYS[11] glimit    hash  lane -> most in flight
-- KEYS[12] gactive   hash  lane -> in flight
-- KEYS[13] outbox    list  words for parents in other queues
-- ARGV[1..] claims (id, token, owner)  each claim
--
-- Returns a word for each claim, in order: "ok"; "lost" when another claim holds the job; "gone" when nobody does.

local active, pending, schedule, dead, completed, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local job_root, lane_root, ring, paused, glimit, gactive = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local outbox = KEYS[13]
local claims = groups(1, 3)

demand("zset", active, schedule, dead)
demand("hash", completed)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)

local words, ids, rows, grouped, family, seen = {}, {}, {}, {}, {}, {}
for i, claim in ipairs(claims) do
    local id, token, owner = claim[1], claim[2], claim[3]
    local row = job_root .. id
    local fields = not seen[id] and read(job_root, id, "parent", "parent_queue", "parent_policy")
    if not fields then
        words[i] = "gone"
    elseif not holds(fields, token, owner) then
        words[i] = "lost"
    else
        words[i], seen[id] = "ok", true
        ids[#ids + 1] = id
        for _, suffix in ipairs({ "", ":errors", ":logs" }) do
            rows[#rows + 1] = row .. suffix
        end
        if fields[3] then
            demand_lane(line, fields[3])
            grouped[#grouped + 1] = { id, fields[3], redis.call("ZSCORE", active, id) }
        end
        family[#family + 1] = parent_of(line, outbox, id, fields, 4, 0)
    end
end
if #ids == 0 then
    return words
end

for _, place in ipairs({ active, pending, schedule, dead }) do
    redis.call("ZREM", place, unpack(ids))
end
redis.call("DEL", unpack(rows))
tally(completed, #ids)
for _, job in ipairs(grouped) do
    local id, group, was_active = job[1], job[2], job[3]
    leave_lane(line, group, id)
    if was_active then
        vacate(line, group)
    end
end
for _, kin in ipairs(family) do
    child_done(line, outbox, kin)
end
ring_up(line)
return words
