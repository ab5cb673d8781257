#!lua flags=allow-oom
-- promote: schedule -> pending
--
-- Line up the jobs whose time has come, the earliest first.
--
-- Needs: prelude
-- KEYS[1] schedule    zset  id -> run-at, ms
-- KEYS[2] pending     zset  id -> -priority
-- KEYS[3] quarantine  zset  id -> when it was put aside, ms
-- KEYS[4] wake        list  tokens for parked workers
-- KEYS[5] job_root    root  of the jobs' rows
-- KEYS[6] lane_root   root  of the lanes
-- KEYS[7] ring        list  lanes that may be served
-- KEYS[8] paused      set   lanes that are paused
-- KEYS[9] glimit      hash  lane -> most in flight
-- KEYS[10] gactive    hash  lane -> in flight
-- ARGV[1] limit       how many jobs at most, up to 500
--
-- Returns how many were promoted, and how many were put aside as unsound.

local schedule, pending, quarantine, wake, job_root = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lane_root, ring, paused, glimit, gactive = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local limit = ARGV[1]

demand("zset", schedule, quarantine)
local line = lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)
local now = clock()
local sound, aside = due(line, schedule, now, limit)

put_aside(quarantine, schedule, now, aside)
promote(line, schedule, sound)
ring_up(line)
return { #sound, #aside }
