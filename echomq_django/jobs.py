"""The service: what an application imports.

Every function takes ``using``, the name of a server in the ECHOMQ setting. Every error says which job, which
queue, and what to do next; when one is raised by an enqueue that could not be sent, nothing was stored.
"""

from .job import Claim, ErrorRecord, Job, Location
from .looks import Counts, Lapsed, WorkerInfo
from .service.admission import (
    DUPLICATE,
    ENQUEUED,
    SCHEDULED,
    Enqueued,
    aenqueue,
    aenqueue_many,
    enqueue,
    enqueue_many,
    enqueue_on_commit,
)
from .service.claims import claim, complete, expire, extend, promote, reap, release, retry
from .service.operators import (
    Moved,
    advance,
    advance_many,
    drain,
    pause,
    remove,
    remove_all,
    remove_many,
    requeue,
    requeue_all,
    requeue_many,
    resume,
)
from .service.reading import (
    aget,
    counts,
    get,
    lapsed,
    location,
    logs,
    oldest_pending_age,
    page,
    queues,
    recent,
    workers,
)
from .transitions import Reaped

__all__ = [
    "DUPLICATE",
    "ENQUEUED",
    "SCHEDULED",
    "Claim",
    "Counts",
    "Enqueued",
    "ErrorRecord",
    "Job",
    "Lapsed",
    "Location",
    "Moved",
    "Reaped",
    "WorkerInfo",
    "advance",
    "advance_many",
    "aenqueue",
    "aenqueue_many",
    "aget",
    "claim",
    "complete",
    "counts",
    "drain",
    "enqueue",
    "enqueue_many",
    "enqueue_on_commit",
    "expire",
    "extend",
    "get",
    "lapsed",
    "location",
    "logs",
    "oldest_pending_age",
    "page",
    "pause",
    "promote",
    "queues",
    "reap",
    "recent",
    "release",
    "remove",
    "remove_all",
    "remove_many",
    "requeue",
    "requeue_all",
    "requeue_many",
    "resume",
    "retry",
    "workers",
]
