"""What moves no job: a queue is paused, resumed or registered, and a worker comes, wakes another and goes."""

from echomq_django import keys as names
from echomq_django import scripts
from echomq_django.call import Call, first_reply, word
from echomq_django.keys import QueueKeys


def pause(keys: QueueKeys) -> Call[str]:
    """Let nobody claim from the queue."""
    return Call(f"pause queue {keys.queue!r}", (scripts.pause.command(meta=keys.meta),), word, resend=True)


def resume(keys: QueueKeys) -> Call[str]:
    """Let jobs be claimed again, and wake a worker."""
    command = scripts.resume.command(meta=keys.meta, wake=keys.wake)
    return Call(f"resume queue {keys.queue!r}", (command,), word, resend=True)


def wake(keys: QueueKeys) -> Call[None]:
    """Wake one parked worker."""
    return Call(
        f"wake queue {keys.queue!r}",
        (("LPUSH", keys.wake, "1"), ("LTRIM", keys.wake, 0, 63)),
        lambda _: None,
        True,
    )


def register(queue: str) -> Call[None]:
    """Make the queue known to whoever lists queues."""
    return Call(f"register queue {queue!r}", (("SADD", names.QUEUES, queue),), lambda _: None, True)


def announce(worker: str, *, ttl_ms: int, facts: dict[str, str | int]) -> Call[int]:
    """Say that a worker lives; the server's time, ms."""
    return Call(
        f"announce worker {worker!r}",
        (
            scripts.announce.command(
                workers=names.WORKERS,
                about=names.worker(worker),
                worker=worker,
                ttl=ttl_ms,
                facts=[value for fact in facts.items() for value in fact],
            ),
        ),
        first_reply,
        resend=True,
    )


def farewell(worker: str) -> Call[None]:
    """Take a worker that has stopped off the list."""
    return Call(
        f"farewell of worker {worker!r}",
        (("ZREM", names.WORKERS, worker), ("DEL", names.worker(worker))),
        lambda replies: None,
        resend=True,
    )
