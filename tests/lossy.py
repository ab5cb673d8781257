"""A proxy that loses replies, in a thread of the test's own process."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

CLOSE = "close"  # the server carries the command out, the client sees its socket close
STALL = "stall"  # the server carries the command out, nothing more reaches the client
BLACKHOLE = "blackhole"  # nothing more goes either way, and nobody closes
DROP = "drop"  # the command never reaches the server, the client sees its socket close


class Lossy:
    """Stand before a server and lose the replies to the next `times` requests that hold `marker`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = parts.hostname or "", parts.port or 6379
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}{parts.path}"
        self.lost = 0
        self._marker, self._times, self._mode = b"", 0, CLOSE
        self._meanwhile: Callable[[], object] | None = None
        self._lock = threading.Lock()
        self._clients: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def lose(
        self, marker: str, times: int = 1, mode: str = CLOSE, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """Begin to lose. `meanwhile` is called after the server has answered and before the client hears."""
        with self._lock:
            self._marker, self._times, self._mode, self._meanwhile = marker.encode(), times, mode, meanwhile
            self.lost = 0

    def close(self) -> None:
        with self._lock:
            self._shut(self._listener)
            for client in self._clients:
                self._shut(client)
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    @staticmethod
    def _shut(end: socket.socket) -> None:
        with suppress(OSError):  # the other side was faster
            end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._carry, args=(client,), daemon=True)
            with self._lock:
                self._clients.add(client)
                self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            with suppress(OSError):  # one of them has gone
                self._between(client, server)
            with self._lock:
                self._clients.discard(client)

    def _between(self, client: socket.socket, server: socket.socket) -> None:
        mode = ""
        while True:
            for end in select.select([client, server], [], [])[0]:
                data = end.recv(1 << 16)
                if not data:
                    return
                if end is client:
                    mode = mode or self._fate(data)
                    if mode == DROP:
                        return
                    if mode != BLACKHOLE:
                        server.sendall(data)
                elif not mode:
                    client.sendall(data)
                else:
                    if self._meanwhile is not None:
                        self._meanwhile()
                    if mode == CLOSE:
                        return

    def _fate(self, request: bytes) -> str:
        with self._lock:
            if self.lost < self._times and self._marker in request:
                self.lost += 1
                return self._mode
            return ""


@contextmanager
def lossy(url: str) -> Iterator[Lossy]:
    with closing(Lossy(url)) as proxy:
        yield proxy
