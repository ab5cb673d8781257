#!lua flags=no-writes
-- lapsed: active | schedule -> nowhere
--
-- Count what reap and promote would move now, by the clock that they would use. Moves nothing.
--
-- Needs: prelude
-- KEYS[1] active    zset  id -> lease deadline, ms
-- KEYS[2] schedule  zset  id -> run-at, ms
--
-- Returns how many leases have run out, and how many scheduled jobs are due.

local active, schedule = KEYS[1], KEYS[2]

local now = clock()
local lapsed = redis.call("ZCOUNT", active, "-inf", now)
local due = redis.call("ZCOUNT", schedule, "-inf", now)
return { lapsed, due }
