"""How much one call of a script takes, and how much is kept."""

MAX_BATCH = 500
"""The most jobs that one call of a script takes: more would keep the server from others for too long."""


PROMOTIONS = 100
"""The most due jobs that a claim promotes."""


ERRORS_KEPT = 25
"""How many error records a job keeps."""


LOGS_KEPT = 100
"""How many log lines a job keeps."""


RECEIPT_TTL_MS = 10_000
"""How long an enqueue may be sent again and be recognised; much longer than any client goes on trying."""
