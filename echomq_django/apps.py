"""The Django app: its name, and the checks that it brings."""

from django.apps import AppConfig


class EchoMQConfig(AppConfig):
    """Register the checks when Django starts. Nothing is read from the settings, no server is asked."""

    name = "echomq_django"
    label = "echomq"
    verbose_name = "EchoMQ"

    def ready(self) -> None:
        """Import the checks: importing registers them."""
        from . import checks, permissions  # noqa: F401, PLC0415
