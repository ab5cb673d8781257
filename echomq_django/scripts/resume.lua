#!lua flags=allow-oom
-- resume: paused -> running
--
-- Let jobs be claimed again, and wake a worker for those that wait.
--
-- Needs: prelude
-- KEYS[1] meta  hash  "paused" when the queue is
-- KEYS[2] wake  list  tokens for parked workers
--
-- Returns "ok".

local meta, wake = KEYS[1], KEYS[2]

demand("hash", meta)
demand("list", wake)
redis.call("HDEL", meta, "paused")
wake_one(wake)
return "ok"
