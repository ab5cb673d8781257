"""Share one development server among all processes of a project.

The folder has one lock per question. `users`: is anybody left (each user shares it)? `starting.lock`: who may start a
guardian? `guardian.lock`: does one live? `server.lock`: does a server still write here? The kernel takes a lock back
when its last holder dies, so none is stale after `kill -9`; what the other files say is believed only if they agree.

The guardian is the server's parent, and in nobody's session. It outlives the process that started it, ends the server
when nobody is left, and takes it down with it when it is killed.
"""

import contextlib
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import redis

from echomq_django.embedded.binary import find_binary
from echomq_django.embedded.private import PrivateServer, ask, connection, lock, start
from echomq_django.exceptions import ServerUnavailable

PATIENCE = 30.0  # seconds for somebody else to start or to end a server: more than either may take
TICK = 1.0  # seconds between a guardian's looks for users
SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103  # bytes that sockaddr_un has room for

log = logging.getLogger(__name__)
_users: dict[Path, int] = {}  # the descriptors by which this process is a user


def connect(folder: Path) -> str:
    """Return the URL of the server of this folder, starting it if need be; it stays for as long as this process.

    Children made by fork are users too, for they share our lock; programs that we start are not. Call it again
    when the server is gone: if its guardian was killed, the next caller starts another one on the same data.
    """
    folder = folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n")
    _become_user(folder)
    if url := running(folder):
        return url
    turn = lock(folder / "starting.lock", fcntl.LOCK_EX, PATIENCE)
    if turn is None:
        raise _trouble(folder, "somebody else has been starting it for too long")
    try:
        deadline = time.monotonic() + PATIENCE
        while _guarded(folder):  # with a server, or about to restart a dead one, or about to leave
            if url := running(folder):
                return url
            if time.monotonic() > deadline:
                raise _trouble(folder, "it has a guardian but does not answer")
            time.sleep(0.02)
        return _start_guardian(folder)
    finally:
        os.close(turn)


def running(folder: Path) -> str | None:
    """Return the URL of the live server of this folder, if there is one."""
    folder = folder.resolve()
    url, pid = _published(folder)
    return url if url and _guarded(folder) and ask(url) == (pid, False) else None


def stop(folder: Path) -> None:
    """End the server of this folder now, whoever uses it."""
    folder = folder.resolve()
    deadline = time.monotonic() + PATIENCE
    while folder.exists() and _guarded(folder):
        if time.monotonic() > deadline:
            raise _trouble(folder, "it does not end")
        if url := running(folder):
            _shut_down(url)
        time.sleep(0.02)


def _become_user(folder: Path) -> None:
    """Hold a share of `users` from now on. A guardian that has begun to end its server has all of it: outwait it."""
    if folder not in _users or not _same_file(_users[folder], folder / "users"):
        share = lock(folder / "users", fcntl.LOCK_SH, PATIENCE)
        if share is None:
            raise _trouble(folder, "its last guardian does not come to an end")
        _users[folder] = share


def _guarded(folder: Path) -> bool:
    probe = lock(folder / "guardian.lock", fcntl.LOCK_SH)
    if probe is not None:
        os.close(probe)
    return probe is None


def _start_guardian(folder: Path) -> str:
    find_binary()  # the guardian would only tell its log
    # The guardian has to find what we found, however sys.path was put together.
    env = os.environ | {"PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path)}
    with (folder / "guardian.log").open("ab") as output:
        subprocess.run(
            [sys.executable, "-m", "echomq_django.embedded", "guard", str(folder)],
            cwd=folder, env=env, start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            check=False,
        )  # fmt: skip
    if url := running(folder):
        return url
    raise _trouble(folder, "it did not start")


def _trouble(folder: Path, what: str) -> ServerUnavailable:
    with contextlib.suppress(OSError):
        what += f". The last words of its guardian: {(folder / 'guardian.log').read_text(errors='replace')[-2000:]}"
    return ServerUnavailable(f"The embedded server in {folder}: {what} (see guardian.log and server.log there)")


def _shut_down(url: str) -> None:
    # By a command and not by a signal: seen from another container the pid is somebody else's.
    # NOSAVE is about snapshots, the append-only file is synced all the same, and it is obeyed by a server that is busy.
    with contextlib.suppress(redis.RedisError, OSError), connection(url) as client:
        client.shutdown(nosave=True)


def _same_file(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def guard(folder: Path) -> None:
    """Run the server of this folder until nobody uses it; return in the caller when it answers."""
    ready, tell = os.pipe()
    if os.fork():  # whoever started us waits for this half only, so nobody has a child to reap
        os.close(tell)
        sys.exit(0 if os.read(ready, 1) else 1)
    os.close(ready)
    logging.basicConfig(format=f"%(asctime)s guardian {os.getpid()} %(message)s", level=logging.INFO)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the machine goes down: stop the server in good order
    mine = lock(folder / "guardian.lock", fcntl.LOCK_EX, PATIENCE)
    if mine is None:
        sys.exit("another guardian lives here")
    with _start_server(folder) as server:
        os.write(tell, b"!")
        os.close(tell)
        while _same_file(mine, folder / "guardian.lock"):  # else the folder was deleted under us
            exit_code = server.wait(TICK)
            if exit_code == 0:
                log.info("the server was asked to end")
                return
            if exit_code is not None:
                log.warning("the server died (%s), starting it again", exit_code)
                server.restart()
                _publish(server)
            if lock(folder / "users", fcntl.LOCK_EX) is not None:  # and kept until our end: newcomers wait for it
                log.info("nobody is left")
                return
        log.warning("%s is not our folder any more", folder)


def _start_server(folder: Path) -> PrivateServer:
    url, pid = _published(folder)
    if url and ask(url) == (pid, False):
        # We are the guardian, so this server has lost its own. Linux ends those, other systems don't.
        log.warning("ending a server without a guardian, pid %s", pid)
        _shut_down(url)
    binary = find_binary()
    if len(os.fsencode(folder / "server.sock")) <= SOCKET_PATH_LIMIT:
        server = PrivateServer(folder, binary, 0, {}, {}, temporary=False)
    else:  # the old port if possible, for the sake of clients that knew the last server
        try:
            server = start(folder, binary=binary, port=urlsplit(url).port)
        except (ServerUnavailable, ValueError) as error:
            log.warning("%s", error)
            server = start(folder, binary=binary)
    _publish(server)
    log.info("%s %s, pid %s, serves at %s", binary.name, binary.path, server.pid, server.url)
    return server


def _published(folder: Path) -> tuple[str, int]:
    """Return URL and pid of the last server of this folder, which may be long dead; nothing if there was none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        note = json.loads((folder / "server.json").read_text())
        return str(note["url"]), int(note["pid"])
    return "", 0


def _publish(server: PrivateServer) -> None:
    draft = server.folder / "server.json.new"
    draft.write_text(json.dumps({"url": server.url, "pid": server.pid}))
    draft.replace(server.folder / "server.json")
