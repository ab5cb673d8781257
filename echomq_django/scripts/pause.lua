#!lua flags=allow-oom
-- pause: running -> paused
--
-- Let nobody claim from the queue. A script for one write, because a full server refuses the bare command.
--
-- Needs: prelude
-- KEYS[1] meta  hash  "paused" when the queue is
--
-- Returns "ok".

local meta = KEYS[1]

demand("hash", meta)
redis.call("HSET", meta, "paused", 1)
return "ok"
