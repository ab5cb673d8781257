"""Look at queues, jobs and workers; nothing moves."""

from echomq_django import async_connection, conf, connection, ids, keys, looks
from echomq_django.exceptions import JobGone
from echomq_django.job import Job, Location, minted_ms
from echomq_django.looks import Counts, Minute, WorkerInfo
from echomq_django.transitions import MAX_BATCH


def get(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> Job:
    """Read a job, its place and its error records; JobGone when there is none.

    A completed job has the state "completed" and no place, and is there for the queue's RESULT_TTL.
    """
    return _present(queue, id, connection.client(using).run(looks.get(keys.of(queue), ids.check_job(id))))


async def aget(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> Job:
    """Read a job as get does, without keeping the event loop waiting."""
    return _present(queue, id, await async_connection.client(using).run(looks.get(keys.of(queue), ids.check_job(id))))


def _present(queue: str, job_id: str, found: Job | None) -> Job:
    if found is None:
        raise JobGone(
            f"queue {queue!r} has no job {job_id}: it was removed, never enqueued, "
            "or completed and its result is kept no longer (RESULT_TTL)."
        )
    return found


def stray(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> Job | None:
    """Read an id that lies in a place and may have no row: a job of which only its place, time and errors are told.

    None when it lies in no place. `get` calls a job gone whose row is; this finds what another program left of it.
    """
    return connection.client(using).run(looks.stray(keys.of(queue), ids.check_job(id)))


def location(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> Location | None:
    """Say in which place a job is; None when it is gone, completed jobs included."""
    found = connection.client(using).run(looks.get(keys.of(queue), ids.check_job(id)))
    return found.location if found else None


def counts(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> Counts:
    """Count a queue's jobs by place."""
    return connection.client(using).run(looks.counts(keys.of(queue)))


def recent(queue: str, start: int = 0, size: int = 100, *, using: str = conf.DEFAULT_ALIAS) -> list[Job]:
    """Read a page of the completed jobs, the latest first; the queue's KEEP_COMPLETED says how many are listed.

    One whose result is kept no longer has its id and no other fields.
    """
    client, queue_keys = connection.client(using), keys.of(queue)
    check_page(queue, start, size)
    listed = client.run(looks.recent(queue_keys, first=start, size=size))
    return client.run(looks.results(queue_keys, listed)) if listed else []


def check_page(queue: str, start: int, size: int) -> None:
    """Refuse a page that is none."""
    if start < 0 or not 1 <= size <= MAX_BATCH:
        raise ValueError(f"a page of queue {queue!r} starts at 0 or later and has 1 to {MAX_BATCH} jobs")


def logs(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> list[str]:
    """Read the log lines of a job, or of a completed one that is kept; none when there is no such job."""
    return connection.client(using).run(looks.logs(keys.of(queue), ids.check_job(id)))


def oldest_pending_age(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> float | None:
    """Give the seconds since the oldest pending job was enqueued; None when none is pending.

    Held against the server's clock; the job's time is its producer's.
    """
    now_ms, heads = connection.client(using).run(looks.heads(keys.of(queue)))
    minted = [at for job_id in heads if (at := minted_ms(job_id)) is not None]
    return max(now_ms - min(minted), 0) / 1000 if minted else None


def minutes(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> list[Minute]:
    """Count, minute by minute of the last hour, the jobs that were completed and the attempts that failed.

    A lost lease is a failed attempt too. The oldest first. The last one is that of the server's clock now, and not over
    yet.
    """
    client, queue_keys = connection.client(using), keys.of(queue)
    return client.run(looks.minutes(queue_keys, now_ms=client.run(looks.clock()), number=60))


def lapsed(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> looks.Lapsed:
    """Count the jobs that a reap and a promote would move now."""
    return connection.client(using).run(looks.lapsed(keys.of(queue)))


def queues(*, using: str = conf.DEFAULT_ALIAS) -> list[str]:
    """List the queues: the configured ones, and those that Python programs have used on this server."""
    found = connection.client(using).run(looks.registered())
    return sorted({*conf.alias(using).queues, *found})


def workers(*, using: str = conf.DEFAULT_ALIAS) -> list[WorkerInfo]:
    """List the workers that have announced themselves during the last day."""
    client = connection.client(using)
    listed = client.run(looks.workers())
    return client.run(looks.about(listed)) if listed else []


def now_ms(*, using: str = conf.DEFAULT_ALIAS) -> int:
    """Give the server's time, unix ms: what every place is scored by."""
    return connection.client(using).run(looks.clock())
