#!lua flags=allow-oom
-- complete: active -> gone
--
-- Retire jobs whose work is done. Accepted from the latest claimant wherever the id sits by now (reaped, buried or
-- requeued meanwhile): the work is done and must not be done twice, so every place is cleared.
-- With a ttl the job is kept for that time under another name, where no move finds it, with its result; without
-- one it is deleted.
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
-- KEYS[14] result_root  root  of what is kept of completed jobs
-- KEYS[15] recent    list  ids of completed jobs, the latest first
-- KEYS[16] minute_root  root  of the counts of a minute
-- ARGV[1] keep       how many ids recent holds; with 0 there is no such list
-- ARGV[2..] claims (id, token, owner, ttl, result)  each claim; ttl in ms, or 0; result a text, or "" for none
--
-- Returns a word for each claim, in order: "ok"; "lost" when another claim holds the job; "gone" when nobody does.

local active, pending, schedule, dead, completed, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local job_root, lane_root, ring, paused, glimit, gactive = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local outbox, result_root, recent, minute_root = KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local keep, claims = ARGV[1], groups(2, 5)

demand("zset", active, schedule, dead)
demand("hash", completed)
demand("list", recent)
local now, most_recent = clock(), count(keep) or 0
local minute = minute_of(minute_root, now)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)

local words, ids, doomed, kept, grouped, family, seen = {}, {}, {}, {}, {}, {}, {}
for i, claim in ipairs(claims) do
    local id, token, owner, ttl, result = unpack(claim)
    local fields = not seen[id] and read(job_root, id, "parent", "parent_queue", "parent_policy")
    if not fields then
        words[i] = "gone"
    elseif not holds(fields, token, owner) then
        words[i] = "lost"
    else
        words[i], seen[id] = "ok", true
        ids[#ids + 1] = id
        if (count(ttl) or 0) > 0 then
            kept[#kept + 1] = { id, ttl, result }
        else
            for _, part in ipairs({ parts(job_root, id) }) do
                doomed[#doomed + 1] = part
            end
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
for _, job in ipairs(kept) do
    local id, ttl, result = unpack(job)
    local own, names = { parts(job_root, id) }, { parts(result_root, id) }
    local fields = { "state", "completed", "finished_at", now, "result", result }
    redis.call("HSET", own[1], unpack(fields, 1, result == "" and 4 or 6))
    -- Most jobs have neither error records nor log lines: one look tells.
    local lists = redis.call("EXISTS", own[2], own[3])
    for i, part in ipairs(own) do
        if i == 1 or lists > 0 and redis.call("EXISTS", part) == 1 then
            redis.call("RENAME", part, names[i])
            redis.call("PEXPIRE", names[i], ttl)
        else
            doomed[#doomed + 1] = names[i]
        end
    end
end
if #doomed > 0 then
    redis.call("DEL", unpack(doomed))
end
tally(completed, "count", #ids)
tick(minute, "completed", #ids)
if most_recent > 0 then
    redis.call("LPUSH", recent, unpack(ids))
    redis.call("LTRIM", recent, 0, most_recent - 1)
else
    redis.call("DEL", recent) -- of a time when it was kept
end
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
