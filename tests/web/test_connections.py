"""Clients that send half a request, or read no answer, are dropped; others are served meanwhile."""

from __future__ import annotations

import asyncio
import http.client
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import assay.store
from tests.comparison.made_scores import made_scores

CODE = """
import socket, sys
from assay.web import security
from assay.web.server import serve
class Bounded(security.BoundedProtocol):
    patience, tick, most, grace = float(sys.argv[2]), 0.01, 20, float(sys.argv[3])
    def connection_made(self, transport):
        # What nobody reads soon fills it.
        found = transport.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        super().connection_made(transport)
security.BoundedProtocol = Bounded
security._SLOWEST = 1_000_000
serve(sys.argv[1], port=0, ready=lambda address: print(address, flush=True))
"""
HEAD = b"GET /runs.json HTTP/1.1\r\nHost: localhost\r\n"
PARTIAL = {
    "nothing": b"",
    "half a line": b"GET /ru",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 1000\r\n\r\nabc",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nabc",
    "half of the second request": HEAD + b"\r\nGET /runs",
    "not HTTP": b"\x16\x03\x01\x02\x00",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("served") / "s.db"
    with assay.store.open(found) as store:
        store.save(made_scores(1, n=3000), "first", dataset="d")
    return found


def served(place: Path, patience: float, grace: float = 0.0, code: str = CODE) -> Iterator[int]:
    """A server of its own, and its port."""
    command = [sys.executable, "-c", code, str(place), str(patience), str(grace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield urlsplit(process.stdout.readline().strip()).port or 0
        process.kill()


@pytest.fixture(scope="module")
def hasty(place: Path) -> Iterator[int]:
    """A server that waits for nobody."""
    yield from served(place, 0.2)


@pytest.fixture(scope="module")
def patient(place: Path) -> Iterator[int]:
    """A server that would wait for an hour."""
    yield from served(place, 3600)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=120)


def rest_of(client: socket.socket) -> bytes:
    """All that the server sends until it hangs up."""
    found = b""
    try:
        while part := client.recv(65536):
            found += part
    except ConnectionResetError:
        return found
    return found


def status_of(port: int) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request("GET", "/runs.json")
        return connection.getresponse().status


@pytest.mark.parametrize("sent", PARTIAL.values(), ids=PARTIAL)
def test_half_a_request_is_dropped(hasty: int, sent: bytes) -> None:
    with connect(hasty) as client:
        client.sendall(sent)
        rest_of(client)
    assert status_of(hasty) == 200


HUNG_UP = (ConnectionResetError, BrokenPipeError)


def send_for_ever(client: socket.socket, data: bytes) -> None:
    """Ends by an error: the server hangs up, or takes nothing more for two minutes."""
    while True:
        client.sendall(data)


def test_a_byte_now_and_then_buys_no_time(hasty: int) -> None:
    with connect(hasty) as client:
        client.sendall(HEAD + b"a: ")
        client.settimeout(0.02)
        while not _has_hung_up(client):
            client.sendall(b"a")


def _has_hung_up(client: socket.socket) -> bool:
    try:
        return not client.recv(1)
    except TimeoutError:
        return False
    except HUNG_UP:
        return True


def test_an_answer_that_nobody_reads_is_dropped(hasty: int) -> None:
    with socket.socket() as client:
        client.settimeout(120)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that it is soon full
        client.connect(("127.0.0.1", hasty))
        with pytest.raises(HUNG_UP):
            send_for_ever(client, HEAD.replace(b"/runs", b"/run/1") + b"\r\n")
    assert status_of(hasty) == 200


def test_idle_connections_make_room(patient: int) -> None:
    idle = [connect(patient) for _ in range(60)]
    try:
        assert status_of(patient) == 200
        assert rest_of(idle[0]) == b""  # the oldest had to go
    finally:
        for one in idle:
            one.close()


@pytest.fixture
def fair(place: Path) -> Iterator[int]:
    """A server in which nobody has to make room."""
    yield from served(place, 3600, 3600)


PLAIN = "import sys; from assay.web.server import serve\nserve(sys.argv[1], port=0)"


async def ask_at_once(port: int, n: int) -> list[int]:
    """Connect, all wait for each other, then all ask: the status of each, 0 where it was reset."""
    connected = asyncio.Semaphore(0)
    everybody = asyncio.Event()

    async def ask() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        connected.release()
        await everybody.wait()
        try:
            writer.write(HEAD + b"Connection: close\r\n\r\n")
            answer = await reader.read()
        except ConnectionError:
            return 0
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        whole = b"content-length: %d\r" % len(body) in head + b"\r"
        return int(answer.split()[1]) if whole or answer[9:12] == b"503" else 0

    asking = [asyncio.create_task(ask()) for _ in range(n)]
    for _ in range(n):
        await connected.acquire()
    everybody.set()
    return await asyncio.gather(*asking)


def test_more_clients_than_places_are_told_to_come_again(fair: int) -> None:
    """Of 30 clients 20 have a place; the others are answered, too."""
    statuses = asyncio.run(ask_at_once(fair, 30))
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 10
    assert status_of(fair) == 200


@pytest.mark.slow
def test_a_thousand_clients_at_once_are_all_answered(place: Path) -> None:
    for port in served(place, 0, code=PLAIN):
        assert asyncio.run(ask_at_once(port, 1000)) == [200] * 1000


def test_strangers_write_nothing_into_the_terminal(place: Path) -> None:
    command = [sys.executable, "-c", CODE, str(place), "0.2", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = urlsplit(process.stdout.readline().strip()).port or 0
        for sent in (b"\x1b[31m GET\r\n\r\n", HEAD + b"Upgrade: x\r\nConnection: upgrade\r\n\r\n"):
            with connect(port) as client:
                client.sendall(sent)
                rest_of(client)
        process.terminate()
        assert process.communicate(timeout=120)[1] == ""
