#!lua flags=allow-oom
-- extend: active -> active
--
-- The heartbeat: push the lease deadlines of held jobs out. It never moves a job: what is not in active stays out.
--
-- Needs: prelude
-- KEYS[1] active    zset  id -> lease deadline, ms
-- KEYS[2] job_root  root  of the jobs' rows
-- ARGV[1] lease     ms from now
-- ARGV[2..] claims (id, token, owner)  each claim
--
-- Returns a word for each claim, in order: "ok", or "lost" when it no longer holds its job.

local active, job_root = KEYS[1], KEYS[2]
local lease = ARGV[1]
local claims = groups(2, 3)

demand("zset", active)
local deadline = clock() + lease
local words, held = {}, {}
for i, claim in ipairs(claims) do
    local id, token, owner = claim[1], claim[2], claim[3]
    local fields = read(job_root, id)
    words[i] = "lost"
    if fields and holds(fields, token, owner) and redis.call("ZSCORE", active, id) then
        words[i] = "ok"
        held[#held + 1] = id
    end
end
for _, id in ipairs(held) do
    redis.call("ZADD", active, "XX", deadline, id)
end
return words
