"""The columns of the list of jobs."""

from __future__ import annotations

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from echomq_django import models as shapes
from echomq_django.job import Location

from .hollow import is_hollow
from .showing import NOTHING, TIME_WORDS, heading, told_place, told_shortly, when


@admin.display(description=_("ID"))
def short_id(shape: shapes.Job) -> str:
    """Show the id: it is short enough to be shown whole."""
    return shape.job_id


@admin.display(description=_("task"))
def task(shape: shapes.Job) -> str:
    """Show the name that the producer gave the job; a question mark when nothing but the id is left of it."""
    return "?" if is_hollow(shape.job) else heading(shape.job.name) or NOTHING


@admin.display(description=_("place"))
def place(shape: shapes.Job) -> str:
    """Show the place."""
    return told_place(shape.job)


@admin.display(description=_("attempts"))
def attempts(shape: shapes.Job) -> str:
    """Show how many attempts were made, and of how many where the row says so."""
    job = shape.job
    return f"{job.attempt}/{job.max_attempts}" if job.max_attempts else str(job.attempt)


@admin.display(description=_("time"))
def time(shape: shapes.Job) -> str:
    """Show the time that matters in the place."""
    words = TIME_WORDS[shape.job.location] if shape.job.location else _("finished")
    return format_html("{} {}", words, told_shortly(when(shape.job)))


@admin.display(description=_("error or worker"))
def remark(shape: shapes.Job) -> str:
    """Show who runs the job, or what went wrong."""
    text = shape.job.worker if shape.job.location is Location.ACTIVE else shape.job.last_error
    return heading(text) or NOTHING
