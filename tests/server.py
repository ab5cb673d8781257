"""The server under test: which one, how it starts, and what it holds.

`ECHOMQ_TEST_SERVER` is a list of wishes; the first that can be had is taken, and when none can the run stops:

    docker          a Valkey container through testcontainers
    local           the binary that `embedded://` finds
    local:BINARY    that binary, a path or a name on PATH
    auto            docker,local
    URL             a server that runs already and whose database is empty
"""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import docker
import redis
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException
from testcontainers.community.valkey import ValkeyContainer
from testcontainers.core.wait_strategies import ExecWaitStrategy

from echomq_django import embedded
from echomq_django.exceptions import ServerUnavailable

IMAGE = "valkey/valkey:9.1"
# How long an engine or a registry may take to say that it is there.
PATIENCE = 2


class NoServer(Exception):
    """No server can be had that answers the wish; the text says why."""


@dataclass(frozen=True)
class Choice:
    kind: str  # docker, local or url
    where: str  # an image, a binary or a URL
    version: str
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = _without_password(self.where) if self.kind == "url" else self.where
        return f"{self.version} ({self.kind}: {where})" + "".join(f"; not {why}" for why in self.passed_over)


@dataclass(frozen=True)
class Running:
    choice: Choice
    url: str


def choose(wishes: str) -> Choice:
    """Take the first wish that can be had."""
    passed_over: list[str] = []
    for wish in _split(wishes):
        try:
            return replace(_look_for(wish), passed_over=tuple(passed_over))
        except NoServer as error:
            passed_over.append(f"{wish.partition('://')[0]}, {error}")
    raise NoServer("ECHOMQ_TEST_SERVER: none can be had: " + "; ".join(passed_over))


@contextmanager
def running(choice: Choice) -> Iterator[Running]:
    """Start the chosen server, and stop it."""
    if choice.kind == "url":
        yield Running(choice, choice.where)
    elif choice.kind == "docker":
        with _container(choice.where) as url:
            yield Running(choice, url)
    else:
        private = embedded.start(binary=binary(choice.where))
        try:
            yield Running(choice, private.url)
        finally:
            private.stop()


def binary(name: str) -> embedded.Binary:
    """Find a binary, and look at it, as `embedded://` does."""
    with mock.patch.dict(os.environ, {"ECHOMQ_SERVER_BIN": name} if name else {}):
        return embedded.find_binary()


def dump(client: redis.Redis) -> dict[Any, tuple[Any, ...]]:
    """Read the whole keyspace as `{key: (type, value, has a TTL)}`, to be compared before and after."""
    keys = sorted(client.keys())
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.type(key).pttl(key)
    facts = pipe.execute()
    held = {}
    for key, kind, ttl in zip(keys, facts[::2], facts[1::2], strict=True):
        if kind != b"none":  # it ran out meanwhile
            held[_text(key)] = (kind.decode(), _read(client, key, kind), ttl >= 0)
    return held


def _split(wishes: str) -> list[str]:
    if "://" in wishes:
        return [wishes]
    return [one for wish in wishes.split(",") for one in (("docker", "local") if wish == "auto" else (wish,))]


def _look_for(wish: str) -> Choice:
    kind, _, name = wish.partition(":")
    if "://" in wish:
        return _url(wish)
    if wish == "docker":
        return Choice("docker", IMAGE, _version_of_the_image())
    if kind == "local":
        return _local(name)
    raise NoServer("not one of auto, docker, local, local:BINARY or a URL")


def _url(url: str) -> Choice:
    try:
        with redis.Redis.from_url(url, protocol=2, decode_responses=False) as client:
            version = _version(client)
            if client.dbsize():
                raise NoServer("its database is not empty, and the tests flush it")
    except (redis.RedisError, ValueError) as error:
        raise NoServer(str(error)) from error
    return Choice("url", url, version)


def _local(name: str) -> Choice:
    try:
        found = binary(name)
    except ServerUnavailable as error:
        raise NoServer(str(error)) from error
    return Choice("local", str(found.path), f"{found.name.title()} {'.'.join(map(str, found.version))}")


def _version_of_the_image() -> str:
    """Look for the image in the engine; pull it only when a registry says quickly that it has it."""
    try:
        _knock(docker.utils.parse_host(os.environ.get("DOCKER_HOST")))
        with closing(docker.from_env(timeout=PATIENCE)) as engine:
            try:
                engine.images.get(IMAGE)
            except ImageNotFound:
                engine.images.get_registry_data(IMAGE)
                with closing(docker.from_env()) as patient:
                    patient.images.pull(IMAGE)
    except (DockerException, RequestException, OSError) as error:
        raise NoServer(f"no Docker engine with {IMAGE}: {error}") from error
    return f"Valkey {IMAGE.rpartition(':')[2]}"


def _knock(host: str) -> None:
    """Connect once by ourselves: docker-py leaves its unix socket open when nobody answers, a ResourceWarning."""
    scheme, _, path = host.partition("://")
    if scheme == "http+unix":
        with closing(socket.socket(socket.AF_UNIX)) as probe:
            probe.settimeout(PATIENCE)
            probe.connect(path)


@contextmanager
def _container(image: str) -> Iterator[str]:
    container = ValkeyContainer(image)
    if os.environ.get("ECHOMQ_TEST_DOCKER_NETWORK") == "host":
        # For an engine without a bridge (see .ci/run): no port is mapped, so each container takes one of the host's.
        port = _free_port()
        container.ports.clear()
        container.with_kwargs(network_mode="host")
        container.with_command(["valkey-server", "--bind", "127.0.0.1", "--port", str(port)])
        container.waiting_for(ExecWaitStrategy(["valkey-cli", "-p", str(port), "ping"]))
        with container:
            yield f"redis://127.0.0.1:{port}/0"
    else:
        with container:
            yield f"redis://{container.get_host()}:{container.get_exposed_port()}/0"


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _version(client: redis.Redis) -> str:
    info = client.info("server")
    return f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def _read(client: redis.Redis, key: bytes, kind: bytes) -> Any:
    match kind:
        case b"string":
            return _text(client.get(key))
        case b"list":
            return [_text(item) for item in client.lrange(key, 0, -1)]
        case b"hash":
            return {_text(name): _text(value) for name, value in client.hgetall(key).items()}
        case b"set":
            return sorted(_text(member) for member in client.smembers(key))
        case b"zset":
            return [(_text(member), score) for member, score in client.zrange(key, 0, -1, withscores=True)]
        case _:
            return _text(client.dump(key))


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
