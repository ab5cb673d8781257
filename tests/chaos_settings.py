"""The settings of the processes that the chaos tests start: as few apps as possible, everything from the environment.

`CHAOS_ECHOMQ` is the setting ECHOMQ, as JSON; `CHAOS_FOLDER` is where the ledger is, and the gates that handlers
wait for; `CHAOS_CLOCK` says by how many seconds this process's clock is wrong; it ends with
its parent if that is `CHAOS_PARENT`.
"""

import ctypes
import json
import os
import signal
import sys
import time

import django

SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = ["echomq_django", *(["django_tasks"] if django.VERSION < (6,) else [])]
TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": []}}
ECHOMQ = json.loads(os.environ["CHAOS_ECHOMQ"])

if shift := float(os.environ.get("CHAOS_CLOCK", "0")):
    time.time = lambda right=time.time: right() + shift  # type: ignore[misc]

# A run of the tests that is killed leaves nobody behind. 1 is PR_SET_PDEATHSIG.
if sys.platform == "linux" and os.getppid() == int(os.environ["CHAOS_PARENT"]):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
