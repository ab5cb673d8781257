#!lua flags=allow-oom
-- expire: dead -> gone
--
-- Forget the oldest dead: those older than their time to live, and those beyond the number that is kept.
-- A death that EchoMQ recorded has no time (score 0): it counts as oldest, but age alone does not end it.
--
-- Needs: prelude
-- KEYS[1] dead      zset  id -> time of death, ms
-- KEYS[2] job_root  root  of the jobs' rows
-- ARGV[1] ttl       ms for which the dead are kept
-- ARGV[2] maximum   how many are kept
-- ARGV[3] limit     how many to forget in this call, up to 500
--
-- Returns how many were forgotten.

local dead, job_root = KEYS[1], KEYS[2]
local ttl, maximum, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

demand("zset", dead)
local ids = {}
local beyond = math.min(redis.call("ZCARD", dead) - maximum, limit)
if beyond > 0 then
    ids = redis.call("ZRANGE", dead, 0, beyond - 1)
else
    ids = redis.call("ZRANGE", dead, "(0", clock() - ttl, "BYSCORE", "LIMIT", 0, limit)
end

for _, id in ipairs(ids) do
    redis.call("ZREM", dead, id)
    erase(job_root, id)
end
return #ids
