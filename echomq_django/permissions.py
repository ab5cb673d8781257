"""The admin's permissions: `migrate` makes them, and without them staff who are no superusers see nothing."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import Error, router

LABEL = "echomq"


# Without our own tag: on Django 6.1 a check that is asked for by a tag is given every database.
@register(Tags.database)
def check_permissions(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Look into the databases that are checked, if any, for the permissions of the admin."""
    # migrate checks first and makes them last: there it would be said of what is just being mended.
    if sys.argv[1:2] == ["migrate"] or not all(map(apps.is_installed, ("django.contrib.admin", "django.contrib.auth"))):
        return []
    return [warning for alias in databases or () for warning in _missing(alias)]


def _missing(alias: str) -> Iterator[CheckMessage]:
    permission: Any = apps.get_model("auth", "Permission")
    if not router.allow_migrate_model(alias, permission):
        return
    try:
        made = set(
            permission.objects.using(alias).filter(content_type__app_label=LABEL).values_list("codename", flat=True)
        )
    except Error:  # no such table, or no database: that is for others to say
        return
    if missing := [codename for codename in codenames() if codename not in made]:
        option = "" if alias == "default" else f" --database {alias}"
        yield Warning(
            f"Database {alias!r} lacks permissions of the admin: {', '.join(missing)}. "
            "Without them only superusers see and do what they are for.",
            hint=f"Run manage.py migrate{option}, which makes them.",
            id="echomq.W012",
        )


def codenames() -> Iterator[str]:
    """Name the permissions of the admin, as `migrate` makes them."""
    for model in apps.get_app_config(LABEL).get_models():
        meta = model._meta
        yield from (f"{action}_{meta.model_name}" for action in meta.default_permissions)
        yield from (codename for codename, _ in meta.permissions)
