"""Put the pages on a site."""

from importlib.util import find_spec
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.utils.module_loading import import_string

from echomq_django.models import Job, Queue, Worker

from .jobs import JobAdmin
from .queues import QueueAdmin
from .workers import WorkerAdmin


def register(site: admin.AdminSite | None = None, base: type[admin.ModelAdmin[Any]] | None = None) -> None:
    """Register jobs, queues and workers with an AdminSite, the default one when none is given.

    `base` is the project's own ModelAdmin class, such as a theme's; unfold's is taken when unfold is installed.
    """
    site = admin.site if site is None else site
    if base is None and find_spec("unfold") and apps.is_installed("unfold"):
        base = import_string("unfold.admin.ModelAdmin")
    for model, ours in ((Queue, QueueAdmin), (Job, JobAdmin), (Worker, WorkerAdmin)):
        if not site.is_registered(model):
            site.register(model, type(ours.__name__, (ours, base), {}) if base else ours)
