#!lua flags=allow-oom
-- announce: nowhere -> workers
--
-- Say that a worker lives, on the server's clock, and forget those that have long been silent.
--
-- Needs: prelude
-- KEYS[1] workers  zset  worker -> last heartbeat, ms
-- KEYS[2] about    hash  what the worker says of itself
-- ARGV[1] worker   its id
-- ARGV[2] ttl      ms for which a silent worker is remembered
-- ARGV[3..] facts (name, value)  each field of the record
--
-- Returns the server's time, ms.

local workers, about = KEYS[1], KEYS[2]
local worker, ttl = ARGV[1], ARGV[2]
local facts = groups(3, 2)

demand("zset", workers)
demand("hash", about)
local now = clock()
redis.call("ZADD", workers, now, worker)
redis.call("ZREMRANGEBYSCORE", workers, "-inf", now - ttl)
for _, fact in ipairs(facts) do
    redis.call("HSET", about, fact[1], fact[2])
end
redis.call("PEXPIRE", about, ttl)
return now
