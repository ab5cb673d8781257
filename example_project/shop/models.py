from django.db import models
from django.urls import reverse

from shop.orders import CURRENCIES


class Receipt(models.Model):
    """What the customer gets: one per order number, whatever happens to the task."""

    number = models.CharField("order number", max_length=20, unique=True)
    # Which enqueued task wrote it, by the id of its result. The same one coming again is a second run of
    # the same work; another one with the same number is a second order that must not have it.
    result_id = models.CharField(max_length=63)
    customer = models.CharField(max_length=200)
    email = models.EmailField()
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    path = models.CharField(max_length=100, help_text="Relative to RECEIPTS_DIR.")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created", "-id")

    def __str__(self) -> str:
        return f"receipt for order {self.number}"

    def get_absolute_url(self) -> str:
        return reverse("receipt", args=[self.number])

    @property
    def price(self) -> str:
        """Say the amount as the currency writes it: yen have no cents."""
        return f"{self.amount:,.{CURRENCIES[self.currency]}f} {self.currency}"


class Run(models.Model):
    """One call of the task. Two runs with one attempt number: the first went down with its worker."""

    class Outcome(models.TextChoices):
        STARTED = "started"  # for good, when the process was killed
        DONE = "done"
        FAILED = "failed"

    number = models.CharField("order number", max_length=20)
    result_id = models.CharField(max_length=63, db_index=True)
    attempt = models.PositiveIntegerField()
    worker_pid = models.PositiveIntegerField()
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.STARTED)
    started = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"order {self.number}, attempt {self.attempt}: {self.outcome}"
