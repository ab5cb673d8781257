"""Run a server of our own, for tests and tools."""

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from echomq_django.embedded.binary import Binary, find_binary
from echomq_django.exceptions import ServerUnavailable

PATIENCE = 15.0  # seconds without a sign of life from a server that starts or ends
DEFAULTS = {
    "bind": "127.0.0.1",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
}
# A program between fork and exec, since a preexec_fn may deadlock in a process with threads. The pid and the death
# signal outlive exec. The parent may have died before prctl was called: hence the look at getppid.
DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class _PortTaken(ServerUnavailable):
    """Say that somebody else listens on the port."""


class PrivateServer:
    """Be a running server of our own, until `stop()` or the end of this process. `start()` makes them."""

    url: str
    port: int  # 0: it listens on a unix socket only
    binary: Binary
    folder: Path

    def __init__(
        self,
        folder: Path,
        binary: Binary,
        port: int,
        config: Mapping[str, str],
        env: Mapping[str, str],
        temporary: bool,
    ) -> None:
        self.folder, self.binary, self.port, self._temporary = folder, binary, port, temporary
        password = f":{quote(config['requirepass'], safe='')}@" if config.get("requirepass") else ""
        self.url = (
            f"redis://{password}127.0.0.1:{port}/0" if port else f"unix://{password}{quote(f'{folder}/server.sock')}"
        )
        # A relative path: a server whose folder was deleted under it must not unlink its successor's socket.
        address = {"port": str(port)} if port else {"port": "0", "unixsocket": "server.sock", "unixsocketperm": "700"}
        options = DEFAULTS | dict(config) | address
        self._arguments = [word for key, value in options.items() for word in (f"--{key}", value)]
        self._env = os.environ | dict(env)
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        # The server inherits this lock, so that nobody starts a second one on its files, even when we are dead already.
        self._lock = lock(folder / "server.lock", fcntl.LOCK_EX, PATIENCE)
        if self._lock is None:
            raise ServerUnavailable(f"Another server works in {folder}: its server.lock is held")
        atexit.register(self.stop)
        try:
            self._run()
        except BaseException:
            self._temporary = False  # start() may try once more in the same folder
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def stop(self) -> None:
        """End the server in good order and remove its folder if it was a temporary one."""
        if self._lock is None or self._owner != os.getpid():
            return  # stopped already, or we are a fork of the process that it belongs to
        self._end(signal.SIGTERM)
        fcntl.flock(self._lock, fcntl.LOCK_UN)  # closing is not enough: children forked meanwhile share this lock
        os.close(self._lock)
        self._lock = None
        atexit.unregister(self.stop)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End the server without a warning; its data stay for `restart()`."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same data and the same port, ending it first if it still runs."""
        if self._lock is None:
            raise ServerUnavailable(f"The server in {self.folder} was stopped for good: start() a new one")
        self._end(signal.SIGTERM)
        self._run()

    def wait(self, seconds: float) -> int | None:
        """Return the server's exit code once it has one, or None after some seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds) if self._process else None
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._owner != os.getpid():
            return
        self._process.send_signal(how)
        if self.wait(PATIENCE) is None:
            self._process.kill()
            self._process.wait()

    def _run(self) -> None:
        command = [str(self.binary.path), *self._arguments]
        # The kernel ties the signal to the parent *thread*: under any other than the main one it would come too early.
        if sys.platform == "linux" and sys.executable and threading.current_thread() is threading.main_thread():
            command = [sys.executable, "-ISc", DIE_WITH_PARENT, str(os.getpid()), *command]
        assert self._lock is not None
        with (self.folder / "server.log").open("ab") as output:
            seen = output.tell()
            # A session of its own: ctrl-C in a terminal is for us, the server still has to answer while we tidy up.
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=self._env, pass_fds=[self._lock], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while (answer := ask(self.url)) != (self.pid, False):
            if answer and answer[0] != self.pid:
                self._end(signal.SIGKILL)
                raise _PortTaken(f"Port {self.port} is served by process {answer[0]}, which is not ours")
            if self.wait(0.01) is not None or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                says = (self.folder / "server.log").read_bytes()[seen:].decode(errors="replace")[-2000:]
                why = ServerUnavailable if self.port == 0 or _free_port(self.port) else _PortTaken
                raise why(f"{self.binary.path} did not start in {self.folder} on port {self.port}. It said: {says}")
            if answer:  # ours, loading its data: however long that takes
                deadline = time.monotonic() + PATIENCE


def start(
    folder: Path | None = None,
    *,
    binary: Binary | None = None,
    config: Mapping[str, str] | None = None,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
) -> PrivateServer:
    """Start a server of our own on 127.0.0.1, in a temporary folder unless told where."""
    binary = binary or find_binary()
    home = Path(tempfile.mkdtemp(prefix="echomq-")) if folder is None else folder.absolute()
    home.mkdir(parents=True, exist_ok=True)
    try:
        for _ in range(5):
            # Between our look and the server's bind anybody may take the port: then another one.
            with contextlib.suppress(_PortTaken) if port is None else contextlib.nullcontext():
                return PrivateServer(home, binary, port or _free_port() or 0, config or {}, env or {}, folder is None)
        raise ServerUnavailable("Five free ports in a row were taken before the server could listen")
    except BaseException:
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)
        raise


def _free_port(port: int = 0) -> int | None:
    """Return `port` (0: any) if a server could listen on it now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    return None


def connection(url: str) -> redis.Redis:
    retry = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(url, protocol=2, socket_timeout=2, socket_connect_timeout=2, retry=retry)


def ask(url: str) -> tuple[int, bool] | None:
    """Return the pid of the server that answers there, and whether it is still loading."""
    with contextlib.suppress(redis.RedisError, OSError, ValueError, KeyError), connection(url) as client:
        info = client.info()
        return info["process_id"], bool(info["loading"])
    return None


def lock(path: Path, how: int, patience: float = 0.0) -> int | None:
    """Open and flock a file; return its descriptor, or None when somebody else kept the lock for so long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                return None
        time.sleep(0.02)
