"""Find a Valkey or Redis binary and run it: privately, or shared by all processes of a project."""

from echomq_django.embedded.binary import Binary, find_binary
from echomq_django.embedded.private import PrivateServer, start
from echomq_django.embedded.shared import connect, running, stop

__all__ = ["Binary", "PrivateServer", "connect", "find_binary", "running", "start", "stop"]
