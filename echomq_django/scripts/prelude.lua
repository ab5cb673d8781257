-- What several scripts must say letter for letter. The loader puts this text in front of each script whose
-- header says "Needs: prelude". Nothing here writes before its caller has looked at everything.

-- The server's clock, in ms. The callers' clocks differ, and the places are scored by one.
local function clock()
    local time = redis.call("TIME")
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Writes are not rolled back when a script fails: a key of a wrong type has to be met before the first of them.
local function demand(kind, ...)
    for _, key in ipairs({ ... }) do
        local found = redis.call("TYPE", key).ok
        if found ~= kind and found ~= "none" then
            error({ err = "WRONGTYPE " .. key .. " holds a " .. found .. " where a " .. kind .. " belongs" })
        end
    end
end

-- A counter as a row holds it, else nil. 15 digits are what Lua's numbers carry exactly.
local function count(value)
    return value and #value <= 15 and value:match("^%d+$") and tonumber(value) or nil
end

-- What a branded id looks like. Anything can be put into a place by hand, and nothing can be called a lane.
local function branded(id)
    return #id == 14 and id:match("^%u%u%u%w+$")
end

-- A row's attempts, owner and group, and the fields asked for; nil when the id, or its row, is missing or unsound.
-- Any other error (a slot that is moving, say) ends the script here, with nothing written.
local function read(job_root, id, ...)
    if not branded(id) then
        return nil
    end
    local fields = redis.pcall("HMGET", job_root .. id, "attempts", "owner", "group", ...)
    if fields.err then
        if not fields.err:find("WRONGTYPE", 1, true) then
            error(fields)
        end
        return nil
    end
    fields[3] = fields[3] and branded(fields[3]) or false
    return count(fields[1]) and fields or nil
end

-- The fence: this claim's attempts, and its nonce where the row has one (EchoMQ writes none).
local function holds(fields, token, owner)
    return fields[1] == token and (not fields[2] or fields[2] == owner)
end

-- Trailing parameters, in groups of `width`.
local function groups(first, width)
    local list = {}
    for at = first, #ARGV, width do
        list[#list + 1] = { unpack(ARGV, at, at + width - 1) }
    end
    return list
end

-- Ids that no script can judge leave their place, or they would be met again at every call.
local function put_aside(quarantine, place, now, ids)
    for _, id in ipairs(ids) do
        redis.call("ZREM", place, id)
        redis.call("ZADD", quarantine, now, id)
    end
    if #ids > 0 then
        redis.call("ZREMRANGEBYRANK", quarantine, 0, -1001)
    end
end

local function tally(key, field, number)
    redis.call("HSET", key, field, (count(redis.call("HGET", key, field)) or 0) + number)
end

-- The hash of this minute's counts.
local function minute_of(minute_root, now)
    local minute = minute_root .. math.floor(now / 60000)
    demand("hash", minute)
    return minute
end

-- Count what people watch minute by minute. The last hour is shown; the hash ends after two.
local function tick(minute, field, number)
    tally(minute, field, number)
    redis.call("EXPIRE", minute, 7200)
end

-- A token that is still in the list means that nobody is parked: a second one would wake nobody.
local function wake_one(wake)
    if redis.call("LLEN", wake) == 0 then
        redis.call("LPUSH", wake, 1)
    end
end

-- The two lines in which jobs wait for a worker: pending, and the lanes of those that have a group.
local function lines(pending, job_root, lane_root, ring, paused, glimit, gactive, wake)
    demand("zset", pending)
    demand("list", wake)
    return {
        pending = pending, job_root = job_root, lane_root = lane_root, ring = ring, paused = paused,
        glimit = glimit, gactive = gactive, wake = wake, empty = redis.call("ZCARD", pending) == 0,
    }
end

local function lane_of(line, group)
    return line.lane_root .. group .. ":pending"
end

local function demand_lane(line, group)
    demand("zset", lane_of(line, group))
    demand("list", line.ring)
    demand("set", line.paused)
    demand("hash", line.glimit, line.gactive)
end

-- Offer a lane to its claimers: once, and only while it may be served. One token for each lane, as EchoMQ does.
local function offer(line, group)
    local limit = tonumber(redis.call("HGET", line.glimit, group))
    local active = count(redis.call("HGET", line.gactive, group)) or 0
    if redis.call("SISMEMBER", line.paused, group) == 0 and not (limit and active >= limit)
        and not redis.call("LPOS", line.ring, group) then
        redis.call("RPUSH", line.ring, group)
        redis.call("LPUSH", line.wake, 1)
        redis.call("LTRIM", line.wake, 0, 63)
    end
end

-- Count a group's jobs in flight, up or down.
local function occupy(line, group, step)
    local active = (count(redis.call("HGET", line.gactive, group)) or 0) + step
    if active > 0 then
        redis.call("HSET", line.gactive, group, active)
    else
        redis.call("HDEL", line.gactive, group)
    end
end

-- A group's job has left active: whoever waits in its lane may be served now.
local function vacate(line, group)
    occupy(line, group, -1)
    if redis.call("ZCARD", lane_of(line, group)) > 0 then
        offer(line, group)
    end
end

-- Take a waiting job out of its lane; an empty lane is offered to nobody.
local function leave_lane(line, group, id)
    redis.call("ZREM", lane_of(line, group), id)
    if redis.call("ZCARD", lane_of(line, group)) == 0 then
        redis.call("LREM", line.ring, 0, group)
    end
end

-- Higher priorities first; equal ones in the order in which they were minted.
local function rank(priority)
    local number = tonumber(priority)
    return number and number >= -100 and number <= 100 and 0 - number or 0
end

local function line_up(line, id, group, priority)
    redis.call("HSET", line.job_root .. id, "state", "pending")
    if group then
        redis.call("ZADD", lane_of(line, group), 0, id)
        offer(line, group)
    else
        redis.call("ZADD", line.pending, rank(priority), id)
    end
end

-- Give a dead job a new life: all attempts so far are spared, crashes are forgotten, the error records stay.
-- `fields` are its attempts, owner, group and priority.
local function revive(line, dead, id, fields)
    local row = line.job_root .. id
    redis.call("ZREM", dead, id)
    redis.call("HDEL", row, "last_error", "stalled", "died_at", "deferred_at")
    redis.call("HSET", row, "spared", fields[1])
    line_up(line, id, fields[3], fields[4])
end

-- Wake a parked worker when pending was empty and is no more.
local function ring_up(line)
    if line.empty and redis.call("ZCARD", line.pending) > 0 then
        wake_one(line.wake)
    end
end

-- Put a job on the schedule. A new earliest one must wake whoever sleeps until the former.
local function appoint(schedule, wake, id, at)
    local first = redis.call("ZRANGE", schedule, 0, 0, "WITHSCORES")[2]
    redis.call("ZADD", schedule, at, id)
    if not first or at < tonumber(first) then
        wake_one(wake)
    end
end

-- What is due on the schedule, judged: sound jobs, and ids to put aside.
local function due(line, schedule, now, limit)
    local sound, aside = {}, {}
    for _, id in ipairs(redis.call("ZRANGE", schedule, "-inf", now, "BYSCORE", "LIMIT", 0, limit)) do
        local fields = read(line.job_root, id, "priority")
        if fields then
            if fields[3] then
                demand_lane(line, fields[3])
            end
            sound[#sound + 1] = { id, fields[3], fields[4] }
        else
            aside[#aside + 1] = id
        end
    end
    return sound, aside
end

local function promote(line, schedule, sound)
    for _, job in ipairs(sound) do
        redis.call("ZREM", schedule, job[1])
        line_up(line, unpack(job, 1, 3))
    end
end

-- What a worker is told of a claimed job: little of most. `fields` as read with CLAIMED.
local CLAIMED = { "payload", "spared", "stalled", "max_attempts", "name", "deferred_at", "started_at", "priority" }
local function told(id, token, fields, now)
    local group, payload, spared, stalled, max_attempts = unpack(fields, 3, 7)
    local name, deferred, priority = fields[8] or "", count(fields[9]), fields[11]
    if not (group or spared or stalled or max_attempts or deferred or priority) then
        return { id, token, payload, name }
    end
    return { id, token, payload, name, count(spared) or 0, count(stalled) or 0, count(max_attempts) or 0,
        group or "", deferred and math.max(now - deferred, 0) or -1, -rank(priority) }
end

-- Add a text to a job's error records or log lines; the oldest ones make room.
local function record(list, text, keep)
    redis.call("RPUSH", list, text)
    redis.call("LTRIM", list, -keep, -1)
end

local function bury(dead, failed, id, row, now, reason)
    redis.call("HSET", row, "state", "dead", "died_at", now, "last_error", reason)
    redis.call("ZADD", dead, now, id)
    tally(failed, "count", 1)
end

-- What a job consists of: its row, its error records, its log lines.
local function parts(root, id)
    local row = root .. id
    return row, row .. ":errors", row .. ":logs"
end

local function erase(job_root, id)
    redis.call("DEL", parts(job_root, id))
end
