-- EchoMQ's flows: a parent waits in no place until its children are done. Only Elixir programs make them, but whoever
-- settles a child must tell its parent, or it waits for ever. Put behind the prelude where a header names it.

-- What a child's fields say of its parent, before anything is written; nil when nobody waits for this child.
-- `fields` hold parent, parent_queue and parent_policy from `at` on. A grandparent is looked at for deaths alone.
local function parent_of(line, outbox, id, fields, at, depth)
    local parent, queue, policy = fields[at], fields[at + 1], fields[at + 2] == "id" and "id" or "fp"
    if not parent then
        return nil
    end
    local kin = { child = id, parent = parent, policy = policy, row = line.job_root .. parent }
    if queue and queue ~= line.job_root:match("{(.*)}:job:$") then
        demand("list", outbox)
        kin.queue = queue
        return kin
    end
    local found = read(line.job_root, parent, "state", "priority", "parent", "parent_queue", "parent_policy")
    local outstanding = kin.row .. ":dependencies"
    demand("string", outstanding)
    if not found or found[4] ~= "awaiting_children" or not count(redis.call("GET", outstanding)) then
        return nil
    end
    demand("hash", kin.row .. ":processed", kin.row .. ":failed", kin.row .. ":unsuccessful")
    if found[3] then
        demand_lane(line, found[3])
    end
    kin.group, kin.priority = found[3], found[5]
    kin.above = depth > 0 and parent_of(line, outbox, parent, found, 6, depth - 1) or nil
    return kin
end

-- Once for each child: one that died, and was ignored, may be completed after all by its late worker, or requeued.
local function child_counted(line, kin, done_in, value, other)
    local first = redis.call("HSETNX", kin.row .. done_in, kin.child, value) == 1
    if not first or redis.call("HEXISTS", kin.row .. other, kin.child) == 1 then
        return
    end
    -- Another child of the same batch may have taken the parent to dead.
    local waits = redis.call("HGET", kin.row, "state") == "awaiting_children"
    if redis.call("DECR", kin.row .. ":dependencies") <= 0 and waits then
        line_up(line, kin.parent, kin.group, kin.priority)
    end
end

-- A parent in another queue may be in another slot: EchoMQ's pump carries the word there.
local function child_done(line, outbox, kin)
    if kin.queue then
        redis.call("RPUSH", outbox, table.concat({ kin.queue, kin.parent, kin.child, kin.child }, "\0"))
    else
        child_counted(line, kin, ":processed", kin.child, ":unsuccessful")
    end
end

-- A dead child takes its parent along, and that one its own, unless the policy is to ignore it.
local function child_dead(line, outbox, dead, failed, kin, now, reason)
    while kin do
        if kin.queue then
            local entry = { "", "fail", kin.queue, kin.parent, kin.child, kin.policy, reason }
            redis.call("RPUSH", outbox, table.concat(entry, "\0"))
            return
        end
        if kin.policy == "id" then
            child_counted(line, kin, ":unsuccessful", reason, ":processed")
            return
        end
        redis.call("HSET", kin.row .. ":failed", kin.child, reason)
        if redis.call("HGET", kin.row, "state") == "dead" then
            return
        end
        bury(dead, failed, kin.parent, kin.row, now, "its child " .. kin.child .. " is dead: " .. reason)
        kin = kin.above
    end
end
