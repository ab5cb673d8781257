"""Put the pages on a site."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.utils.module_loading import import_string

from echomq_django.models import Job, Queue, Worker

from .jobs import JobAdmin
from .queues import QueueAdmin
from .workers import WorkerAdmin


def register(
    site: admin.AdminSite | None = None, *, base: type[Any] | None = None, hooks: type[Any] | None = None
) -> None:
    """Register jobs, queues and workers with an AdminSite, the default one when none is given; the last call counts.

    `base` is the project's own ModelAdmin class, such as a theme's; unfold's is taken when unfold is installed.
    `hooks` is a class whose methods go before ours on all three, such as `get_queue_names`.
    """
    site = admin.site if site is None else site
    if base is None and apps.is_installed("unfold"):
        base = import_string("unfold.admin.ModelAdmin")
    for model, ours in ((Queue, QueueAdmin), (Job, JobAdmin), (Worker, WorkerAdmin)):
        if site.is_registered(model):
            site.unregister(model)
        classes = tuple(each for each in (hooks, ours, base) if each is not None)
        site.register(model, type(ours.__name__, classes, {}))
