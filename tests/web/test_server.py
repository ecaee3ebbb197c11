"""`assay serve` as a process: its address, its end, and what it says when it cannot begin."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import assay.store
from assay.errors import install_command
from assay.web import server
from assay.web.server import serve
from tests.comparison.made_scores import made_scores
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("served") / "s.db"
    with assay.store.open(found) as store:
        store.save(made_scores(1), "first", dataset="d")
    return found


@contextmanager
def served(
    place: Path, *arguments: str, **variables: str
) -> Iterator[tuple[str, subprocess.Popen]]:
    """A server of its own, and the address that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "serve", "--store", str(place), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def fetched(address: str, path: str, **headers: str) -> http.client.HTTPResponse:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=PATIENCE)
    connection.request("GET", path, headers={"host": parts.netloc, **headers})
    answer = connection.getresponse()
    answer.body = answer.read()
    connection.close()
    return answer


def test_it_serves_on_this_machine_and_ends_quietly(place):
    with served(place) as (address, process):
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith("/")
        answer = fetched(address, "/runs.json")
        assert answer.status == 200
        assert b"first" in answer.body
        assert answer.headers["server"] is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert (out, err) == ("", "serving until Ctrl-C\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_it_ends_when_it_is_told_to(place, number, code):
    with served(place) as (address, process):
        assert fetched(address, "/runs.json").status == 200
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, "Traceback" in err) == (code, False), err


@pytest.mark.parametrize(
    ("before", "expected"), [(lambda *_: None, [signal.SIGHUP]), (signal.SIG_IGN, [])]
)
def test_a_hang_up_is_handled_and_not_raised_unless_it_is_ignored(before, expected):
    heard, outside = [], signal.signal(signal.SIGHUP, before)
    try:
        with server.handle_hang_up(lambda number, _: heard.append(number)):
            signal.raise_signal(signal.SIGHUP)
        assert heard == expected
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, outside)


def test_beyond_this_machine_only_with_a_token_that_is_never_logged(place):
    with served(place, "--host", "0.0.0.0") as (address, process):
        path, _, token = address.partition("?token=")
        assert len(token) >= 30
        assert fetched(path, "/runs").status == 401
        assert fetched(path, "/runs?token=wrong").status == 401
        assert fetched(path, "/static/dashboard.css").status == 401
        assert fetched(path, "/runs.json", authorization=f"Bearer {token}").status == 200
        let_in = fetched(path, f"/runs?status=finished&token={token}")
        assert let_in.status == 303
        assert let_in.headers["location"] == "/runs?status=finished"
        cookie = let_in.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert fetched(path, "/runs", cookie=cookie.partition(";")[0]).status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert token not in out + err


def test_a_token_of_ones_own_is_asked_for_everywhere(place):
    token = "correct-horse-battery"
    with served(place, ASSAY_TOKEN=token) as (address, _):
        assert token not in address
        assert fetched(address, "/runs").status == 401
        assert fetched(address, "/runs", authorization=f"bearer {token}").status == 200


def test_editing_asks_for_a_token_on_this_machine_too(place):
    with served(place, "--allow-edit") as (address, _):
        path, _, token = address.partition("?token=")
        assert len(token) >= 30
        assert fetched(path, "/run/1").status == 401
        page = fetched(path, "/run/1", authorization=f"Bearer {token}")
        assert page.status == 200
        assert page.headers["referrer-policy"] == "same-origin"


def test_a_port_in_use_is_named(place, assay):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = assay("serve", "--store", place, "--port", port)
    assert answer.code == 2
    assert f"Cannot open port {port} of 127.0.0.1" in answer.err
    assert "--port 0" in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "words"),
    [
        (["--store", "none.db"], {}, 5, "There is no store at none.db"),
        (["--store", "S", "--host", "no.such.host.invalid"], {}, 2, "Cannot open port"),
        (["--store", "S", "--port", "70000"], {}, 2, "--port"),
        (["--store", "S"], {"ASSAY_TOKEN": "short"}, 2, "at least 16"),
    ],
)
def test_what_cannot_begin_says_why(
    place, tmp_path, assay, monkeypatch, arguments, variables, code, words
):
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    answer = assay("serve", *(str(place) if one == "S" else one for one in arguments))
    assert answer.code == code
    assert words in answer.err
    assert "short" not in answer.err.replace("shorter", "")
    assert not list(tmp_path.iterdir())


def test_open_opens_the_page(place, assay, monkeypatch):
    import webbrowser

    from assay.web import server

    opened, called = [], threading.Event()
    monkeypatch.setattr(webbrowser, "open", lambda url: (opened.append(url), called.set()))
    monkeypatch.setattr(server, "run_server", lambda app, listener: None)
    answer = assay("serve", "--store", place, "--port", "0", "--open")
    assert answer.code == 0
    assert called.wait(60)
    assert opened == [answer.out.strip()]


def test_a_missing_package_gives_the_command(place, assay, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = assay("serve", "--store", place)
    assert answer.code == 4
    assert install_command("serve") in answer.err


def test_the_library_takes_the_same_words(place, monkeypatch):
    from assay.web import server

    said = []
    monkeypatch.setattr(server, "run_server", lambda app, listener: None)
    serve(place, host="::1" if socket.has_ipv6 else "127.0.0.1", port=0, ready=said.append)
    assert said[0].startswith(("http://[::1]:", "http://127.0.0.1:"))
