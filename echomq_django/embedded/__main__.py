"""`python -m echomq_django.embedded guard FOLDER`: the guardian of a shared server; `connect()` starts it."""

import sys
from pathlib import Path

from echomq_django.embedded.shared import guard

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["guard", folder]:
            guard(Path(folder))
        case _:
            sys.exit(__doc__)
