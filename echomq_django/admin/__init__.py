"""The queue in Django's admin: browse and mend pending, active, schedule and dead.

`register(site)` puts it on an AdminSite of the project's own; the default one has it already.
"""

from django.contrib import admin

from .registration import register

__all__ = ["register"]

register(admin.site)
