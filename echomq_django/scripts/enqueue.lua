#!lua
-- enqueue: nowhere -> pending | schedule
--
-- Admit jobs, whose ids must be those of no job and of no result. There is no allow-oom flag here: a full server refuses new jobs, and only those.
-- A call that is sent again because its reply was lost is answered from its receipt: by then the jobs may
-- have run and gone, and would be admitted twice.
--
-- Needs: prelude
-- KEYS[1] pending       zset    id -> -priority
-- KEYS[2] schedule      zset    id -> run-at, ms
-- KEYS[3] wake          list    tokens for parked workers
-- KEYS[4] receipt       string  the verdicts of this call
-- KEYS[5] job_root      root    of the jobs' rows
-- KEYS[6] result_root   root    of what is kept of completed jobs
-- ARGV[1] delay         ms from now, or ""
-- ARGV[2] at            run-at in unix ms, or ""
-- ARGV[3] priority      -100 to 100
-- ARGV[4] name          the task's dotted path, or ""
-- ARGV[5] max_attempts  a number, or ""
-- ARGV[6] receipt_ttl   ms for which the call may be sent again
-- ARGV[7..] jobs (id, payload)  each job
--
-- Returns a word for each job, in order: "enqueued", "scheduled" or "duplicate".

local pending, schedule, wake, receipt, job_root, result_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local delay, at, priority, name, max_attempts, receipt_ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local jobs = groups(7, 2)

local verdicts = {}
local former = redis.call("GET", receipt)
if former then
    for word in former:gmatch("%S+") do
        verdicts[#verdicts + 1] = word
    end
    return verdicts
end
demand("zset", pending, schedule)
demand("list", wake)

local now = clock()
local run_at = tonumber(at) or now + (tonumber(delay) or 0)
local place, score, state, word = pending, rank(priority), "pending", "enqueued"
if run_at > now then
    place, score, state, word = schedule, run_at, "scheduled", "scheduled"
end
local first = redis.call("ZRANGE", place, 0, 0, "WITHSCORES")[2]

local options = {}
for _, option in ipairs({ { "name", name }, { "max_attempts", max_attempts }, { "priority", priority } }) do
    if option[2] ~= "" and not (option[1] == "priority" and rank(priority) == 0) then
        options[#options + 1] = option[1]
        options[#options + 1] = option[2]
    end
end

local admitted = {}
for i, job in ipairs(jobs) do
    local id = job[1]
    verdicts[i] = "duplicate"
    if not admitted[id] and redis.call("EXISTS", job_root .. id, result_root .. id) == 0 then
        verdicts[i], admitted[id] = word, true
    end
end

for i, job in ipairs(jobs) do
    local id, payload = job[1], job[2]
    if verdicts[i] == word then
        redis.call("HSET", job_root .. id, "state", state, "attempts", 0, "payload", payload, unpack(options))
        redis.call("ZADD", place, score, id)
    end
end
-- Parked workers sleep until pending fills, or until the earliest job of the schedule is due.
if next(admitted) and (not first or (place == schedule and run_at < tonumber(first))) then
    wake_one(wake)
end
redis.call("SET", receipt, table.concat(verdicts, " "), "PX", receipt_ttl)
return verdicts
