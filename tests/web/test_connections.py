"""Clients that send half a request, or read no answer, are dropped; others are served meanwhile."""

from __future__ import annotations

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
from tests.web.samples import made_scores

CODE = """
import socket, sys
from assay.web import security
from assay.web.server import serve
class Bounded(security.BoundedProtocol):
    patience, tick, most = float(sys.argv[2]), 0.01, 20
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


def served(place: Path, patience: float) -> Iterator[int]:
    """A server of its own, and its port."""
    command = [sys.executable, "-c", CODE, str(place), str(patience)]
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


def test_strangers_write_nothing_into_the_terminal(place: Path) -> None:
    command = [sys.executable, "-c", CODE, str(place), "0.2"]
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
