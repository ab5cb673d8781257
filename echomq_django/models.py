"""The queue as Django's admin sees it: models without tables.

They give the admin its pages, its forms and its permissions. Nothing is stored through them: the manager finds
nothing, so that `dumpdata` and deletions elsewhere ask no database for tables that are not there, and there is no
migrations package, which every changed word would want a migration of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from . import job as stored
from .looks import Counts, Minute, WorkerInfo


class Nothing(models.QuerySet[Any]):
    """Refuse to store; `none()` does the rest."""

    def bulk_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to store."""
        raise TypeError("jobs, queues and workers are kept at the server: use echomq_django.jobs")


class NothingStored(models.Manager[Any]):
    """Find nothing, without asking."""

    def get_queryset(self) -> models.QuerySet[Any]:
        """Give an empty query."""
        return Nothing(self.model, using=self._db).none()


class Shape(models.Model):
    """Be the shape of something that is kept at the server."""

    objects = NothingStored()

    class Meta:
        abstract = True
        managed = False
        base_manager_name = "objects"
        default_manager_name = "objects"

    # Not save: this is where save, create, get_or_create and loaddata meet.
    def save_base(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to store."""
        raise TypeError(f"a {self._meta.model_name} is kept at the server: use echomq_django.jobs")

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to delete."""
        raise TypeError(f"a {self._meta.model_name} is kept at the server: use echomq_django.jobs")


class Queue(Shape):
    """Be a queue in the admin."""

    name = models.CharField(_("name"), max_length=128, primary_key=True)

    # What was seen at the server; whoever reads a queue sets it.
    counts: Counts
    age: float | None
    minutes: Sequence[Minute]
    serving: int
    jobs_url: str
    """Where its jobs are listed; empty for who may not see them."""

    class Meta(Shape.Meta):
        abstract = False
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        default_permissions = ("view",)
        permissions = (("pause_queue", "Can pause and resume queue"), ("drain_queue", "Can drain queue"))

    def __str__(self) -> str:
        return self.name


class Job(Shape):
    """Be a job in the admin. Its key names its queue too: `<queue>:<id>`."""

    key = models.CharField(_("key"), max_length=160, primary_key=True)
    job_id = models.CharField(_("ID"), max_length=14)
    queue = models.CharField(_("queue"), max_length=128)
    name = models.CharField(_("task"), max_length=500)
    location = models.CharField(_("place"), max_length=10)
    # Not a JSONField, whose check asks every database of the project, on Django 6.1, whether it knows JSON.
    arguments: models.TextField[Any, Any] = models.TextField(_("arguments"), default="")
    at = models.DateTimeField(_("time"), null=True)

    # What was seen at the server; whoever reads a job sets it.
    job: stored.Job

    class Meta(Shape.Meta):
        abstract = False
        verbose_name = pgettext_lazy("of a queue", "job")
        verbose_name_plural = pgettext_lazy("of a queue", "jobs")
        default_permissions = ("view", "change", "delete")
        permissions = (
            ("view_job_payload", "Can view job payload"),
            ("requeue_job", "Can requeue job"),
            ("advance_job", "Can run scheduled job now"),
        )

    def __str__(self) -> str:
        return self.job_id


class Worker(Shape):
    """Be a worker in the admin."""

    name = models.CharField(_("name"), max_length=200, primary_key=True)

    # What was seen at the server; whoever reads a worker sets it.
    info: WorkerInfo
    queues: Sequence[str]
    """Those of its queues that the user may see."""

    class Meta(Shape.Meta):
        abstract = False
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.name
