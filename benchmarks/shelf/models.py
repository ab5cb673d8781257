"""One table."""

from django.db import models


class Item(models.Model):
    """Be what a job reads and writes."""

    count = models.IntegerField(default=0)

    class Meta:
        app_label = "shelf"

    def __str__(self) -> str:
        return f"item {self.pk}"
