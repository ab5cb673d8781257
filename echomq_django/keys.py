"""Every key. The only file that spells "emq:".

The part in braces is the cluster's hash tag: all keys of one queue live in one slot, so that a script may
touch them together.
"""

import binascii
import re
from dataclasses import dataclass
from functools import lru_cache

from .exceptions import InvalidQueueName

VERSION = "{emq}:version"
WORKERS = "{emq}:workers"
QUEUES = "{emq}:queues"

_QUEUE_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


def worker(worker_id: str) -> str:
    """Name the record of one worker."""
    return f"{{emq}}:worker:{worker_id}"


def is_queue(queue: object) -> bool:
    """Say whether something is a queue's name.

    A brace would move keys to another slot, and "emq" is the tag of the keys above.
    """
    return isinstance(queue, str) and queue != "emq" and _QUEUE_NAME.fullmatch(queue) is not None


def check_queue(queue: str) -> str:
    """Give a queue's name back; InvalidQueueName when it is none."""
    if not is_queue(queue):
        raise InvalidQueueName(f"{queue!r} is not a queue's name: use 1 to 128 of A-Z a-z 0-9 . _ - (and not 'emq').")
    return queue


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """Hold the keys of one queue. A `root` is completed by an id or a group."""

    queue: str
    pending: str
    active: str
    schedule: str
    dead: str
    quarantine: str
    meta: str
    wake: str
    job_root: str
    receipt_root: str
    lane_root: str
    ring: str
    paused: str
    glimit: str
    gactive: str
    outbox: str
    completed: str
    failed: str
    minute_root: str
    result_root: str
    recent: str
    events: str
    """A channel, and no key."""

    @property
    def lines(self) -> dict[str, str]:
        """Give the keys that a script needs, beside pending, to line jobs up: in pending or in their lanes."""
        return {
            "wake": self.wake,
            "job_root": self.job_root,
            "lane_root": self.lane_root,
            "ring": self.ring,
            "paused": self.paused,
            "glimit": self.glimit,
            "gactive": self.gactive,
        }

    def row(self, job_id: str) -> str:
        """Name a job's row."""
        return self.job_root + job_id

    def errors(self, job_id: str) -> str:
        """Name the list of a job's error records."""
        return self.job_root + job_id + ":errors"

    def logs(self, job_id: str) -> str:
        """Name the list of a job's log lines."""
        return self.job_root + job_id + ":logs"

    def minute(self, number: int) -> str:
        """Name the counts of a minute, given as minutes since 1970."""
        return f"{self.minute_root}{number}"

    def result(self, job_id: str) -> str:
        """Name what is kept of a completed job: its row, under another name."""
        return self.result_root + job_id

    def result_errors(self, job_id: str) -> str:
        """Name the list of a completed job's error records."""
        return self.result_root + job_id + ":errors"

    def result_logs(self, job_id: str) -> str:
        """Name the list of a completed job's log lines."""
        return self.result_root + job_id + ":logs"


@lru_cache(maxsize=1024)
def of(queue: str) -> QueueKeys:
    """Give the keys of a queue; InvalidQueueName when its name is none."""
    base = f"emq:{{{check_queue(queue)}}}:"
    return QueueKeys(
        queue=queue,
        pending=base + "pending",
        active=base + "active",
        schedule=base + "schedule",
        dead=base + "dead",
        quarantine=base + "quarantine",
        meta=base + "meta",
        wake=base + "wake",
        job_root=base + "job:",
        receipt_root=base + "receipt:",
        lane_root=base + "g:",
        ring=base + "ring",
        paused=base + "paused",
        glimit=base + "glimit",
        gactive=base + "gactive",
        outbox=base + "flow:outbox",
        completed=base + "metrics:completed",
        failed=base + "metrics:failed",
        minute_root=base + "minute:",
        result_root=base + "result:",
        recent=base + "recent",
        events=base + "events",
    )


def slot(key: str) -> int:
    """Give the cluster slot of a key: CRC16-XMODEM of its hash tag, modulo 16384.

    Source: the Redis cluster specification, "Hash tags".
    """
    start = key.find("{")
    end = key.find("}", start + 1)
    tag = key[start + 1 : end] if start >= 0 and end > start + 1 else key
    return binascii.crc_hqx(tag.encode(), 0) % 16384
