"""The work of the ORM's measurement without a queue: as many times as the clock lets it."""

import django

django.setup()

from benchmarks.handlers import work_on_item  # noqa: E402
from benchmarks.marks import argument  # noqa: E402

number = 0
while True:
    work_on_item(argument(number))
    number += 1
