from echomq_django.embedded.binary import Binary, find_binary
from echomq_django.embedded.private import PrivateServer, start

__all__ = ["Binary", "PrivateServer", "find_binary", "start"]
