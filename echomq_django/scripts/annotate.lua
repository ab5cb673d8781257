#!lua flags=allow-oom
-- annotate: active -> active
--
-- Say how far a job is: its progress, a checkpoint for its next attempt, lines for its log. Only while the claim
-- holds the job. Sent again, a line may be there twice.
--
-- Needs: prelude
-- KEYS[1] active    zset  id -> lease deadline, ms
-- KEYS[2] job_root  root  of the jobs' rows
-- ARGV[1] id        the job's id
-- ARGV[2] token     the claim's attempts value
-- ARGV[3] owner     the claim's nonce
-- ARGV[4] keep      how many log lines a job keeps
-- ARGV[5] events    the channel that is told of progress
-- ARGV[6..] entries (kind, value)  each note; kind is progress, checkpoint or log
--
-- Returns "ok", or "lost" when the claim no longer holds the job.

local active, job_root = KEYS[1], KEYS[2]
local id, token, owner, keep, events = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local entries = groups(6, 2)

for _, entry in ipairs(entries) do
    local kind = entry[1]
    if kind ~= "progress" and kind ~= "checkpoint" and kind ~= "log" then
        error({ err = "ERR annotate knows no " .. kind .. ": use progress, checkpoint or log" })
    end
end
demand("zset", active)
local row, _, logs = parts(job_root, id)
local fields = read(job_root, id)
if not fields or not holds(fields, token, owner) or not redis.call("ZSCORE", active, id) then
    return "lost"
end
demand("list", logs)

for _, entry in ipairs(entries) do
    local kind, value = entry[1], entry[2]
    if kind == "log" then
        record(logs, value, keep)
    else
        redis.call("HSET", row, kind, value)
    end
    if kind == "progress" then
        -- As EchoMQ tells it. Whoever may not publish has written all the same, so a refusal is no error.
        redis.pcall("PUBLISH", events, cjson.encode({ event = kind, job = id, progress = value }))
    end
end
return "ok"
