from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.core.management.base import BaseCommand

LOOK = ("view_queue", "view_job", "view_worker")
MEND = ("view_job_payload", "requeue_job", "advance_job", "delete_job", "pause_queue")
SHOP = ("view_receipt", "view_run")
GROUPS = {"viewer": (*LOOK, *SHOP), "operator": (*LOOK, *MEND, *SHOP)}


class Command(BaseCommand):
    help = "Let admin, operator and viewer into the admin of this development site; each one's password is its name."
    requires_migrations_checks = True

    def handle(self, **options: Any) -> None:
        if not User.objects.filter(username="admin").exists():
            User.objects.create_superuser("admin", password="admin")
        for name, codenames in GROUPS.items():
            group, _ = Group.objects.get_or_create(name=name)
            group.permissions.set(Permission.objects.filter(codename__in=codenames))
            if not User.objects.filter(username=name).exists():
                User.objects.create_user(name, password=name, is_staff=True).groups.add(group)
        self.stdout.write(
            "Log in to /admin/ as admin, who may do everything, as operator, who mends jobs, or as viewer, who looks. "
            "The password is the name."
        )
