"""Addresses of shards: a password or a signature is used, and written down nowhere."""

from __future__ import annotations

import io
import json
import logging
import pickle
import socket
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from assay import store as run_store
from assay.cli.repeating import StoredCommand
from assay.cluster import Cluster, encode_shards, open_shards, rank_shards
from assay.cluster.remote_files import Address
from assay.cluster.shards import Shard
from assay.core.specs import Consent
from assay.core.text import mask_secrets
from assay.errors import StorageError, UsageError
from assay.io.formats import read_run
from assay.io.streams import atomic_write
from assay.runs.record import RunRecord
from tests.cluster.corpora import ranking_bytes

fsspec = pytest.importorskip("fsspec")

SIGNATURE = "c0ffee5EcREt/0123%2F456"
PASSWORD = "hunter2-is-mine"
SIGNED = f"X-Amz-Credential=me%2Fs3&X-Amz-Signature={SIGNATURE}"
QUERIES = np.eye(2, 3, dtype=np.float32)
DOCS = np.eye(3, dtype=np.float32)


class HttpError(Exception):
    """As the client of fsspec raises it: with the status and the whole address."""

    def __init__(self, status, url):
        super().__init__(f"{status}, message='No', url='{url}'")
        self.status = status


class HttpFiles(fsspec.AbstractFileSystem):
    """As fsspec's own for http, where its client is not installed: all failures are "not found"."""

    protocol = ("http",)
    cachable = False

    @classmethod
    def _strip_protocol(cls, path):
        return path

    def _get(self, url):
        rest = url.partition("://")[2].rpartition("@")[2]
        host, slash, path = rest.partition("/")
        connection = HTTPConnection(host, timeout=10)
        try:
            connection.request("GET", slash + path)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 400:
                raise HttpError(answer.status, url)
        except Exception as error:
            raise FileNotFoundError(url) from error
        finally:
            connection.close()
        return content

    def info(self, path, **_):
        return {"name": path, "size": len(self._get(path)), "type": "file"}

    def open(self, path, mode="rb", **_):
        return io.BytesIO(self._get(path))


@pytest.fixture
def http_files(monkeypatch):
    if not find_spec("aiohttp"):
        registry = import_module("fsspec.registry")
        monkeypatch.setitem(registry._registry, "http", HttpFiles)


@contextmanager
def serving(files, *, signed=SIGNED):
    """A server on this machine that gives a file to whoever shows the signature."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            asked.append(self.path)
            status = next((int(part) for part in path.split("/") if part.isdigit()), 200)
            if status == 200 and signed is not None and query != signed:
                status = 403
            content = files.get(path, b"")
            status = 404 if status == 200 and path not in files else status
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def causes_of(error):
    """The errors that a traceback would show."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def has_secret(text):
    content = text if isinstance(text, bytes) else str(text).encode()
    return any(one.encode() in content for one in (PASSWORD, SIGNATURE, "c0ffee5EcREt"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", QUERIES)
    (tmp_path / "qrels.txt").write_text("0 0 0 1\n1 0 1 1\n")
    return tmp_path


def test_a_signed_address_is_read_and_written_down_nowhere(here, assay, http_files, caplog):
    caplog.set_level(logging.INFO)
    with serving({"/b/a.npy": npy(DOCS)}) as (host, asked):
        url = f"{host.replace('//', f'//me:{PASSWORD}@')}/b/a.npy?{SIGNED}"
        words = ("rank", "q.npy", url, "-k", 2)
        saved = ("-r", "qrels.txt", "-m", "RR", "--save", "--store", "runs.db")
        more = ("--checkpoint", "ck", "--timings", "t.json", "--signature", "--full")
        answer = assay(*words, "-o", "run.txt", *saved, *more)
        assert answer.code == 0, answer.err
        assert assay(*words, "--dry-run").code == 0
    assert any(SIGNED in one for one in asked), "the server has seen the signature"
    page = assay("report", "run:1", "--store", "runs.db", "-o", "report.html")
    assert page.code == 0, page.err
    exported = assay("runs", "export", "--store", "runs.db", "-o", "out.json")
    assert exported.code == 0, exported.err
    shown = assay("runs", "show", "1", "--store", "runs.db", "--json")
    assert "me:***@127.0.0.1" in shown.out
    with run_store.open("runs.db") as store:
        run = store.run(1)
        assert not has_secret((run.config, run.command))
        (marked,) = [mark for name, mark in run.data.items() if name.endswith("/b/a.npy?***")]
        assert marked["bytes"] == len(npy(DOCS)), "shards elsewhere have a fingerprint, too"
        assert len(marked["mark"]) > 8
    for said in (answer.out, answer.err, exported.out, shown.out, shown.err, caplog.text):
        assert not has_secret(said)
    files = [path for path in here.rglob("*") if path.is_file()]
    assert len(files) > 6
    assert not [path.name for path in files if has_secret(path.read_bytes())]


def test_a_failed_run_keeps_no_secret(here, assay, http_files):
    with serving({}) as (host, _):
        url = f"{host}/b/a.npy?{SIGNED}"
        saved = ("-r", "qrels.txt", "--save", "--store", "runs.db")
        answer = assay("rank", "q.npy", url, *saved)
    assert answer.code == 5
    assert "/b/a.npy?*** does not exist" in answer.err
    assert not has_secret(answer.err)
    assert not [one.name for one in here.glob("runs.db*") if has_secret(one.read_bytes())]


def test_every_kind_of_signed_shard(http_files):
    buffer = io.BytesIO()
    np.savez(buffer, vectors=DOCS[1:], ids=np.array(["b", "c"]))
    manifest = {"shards": [{"path": f"a.npy?{SIGNED}", "ids": f"a.txt?{SIGNED}"}]}
    files = {
        "/b/m.json": json.dumps(manifest).encode(),
        "/b/a.npy": npy(DOCS[:1]),
        "/b/a.txt": b"a\n",
        "/b/c.npz": buffer.getvalue(),
    }
    with serving(files) as (host, _):
        got = rank_shards(QUERIES, [f"{host}/b/m.json?{SIGNED}", f"{host}/b/c.npz?{SIGNED}"], 1)
        assert [got.row(query) for query in range(2)] == [[("a", 1.0)], [("b", 1.0)]]


def test_texts_at_a_signed_address(tmp_path, monkeypatch, http_files):
    (tmp_path / "texts_of_mine.py").write_text("def f(texts): return [[len(t)] for t in texts]")
    monkeypatch.syspath_prepend(str(tmp_path))
    with serving({"/b/a.txt": b"one\nthree\n"}) as (host, _):
        url = f"{host}/b/a.txt?{SIGNED}"
        assert encode_shards(url, "py:texts_of_mine:f", tmp_path / "out").n_texts == 2
    for path in (tmp_path / "out").iterdir():
        assert not has_secret(path.read_bytes())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/401/a.npy", r"is not readable \(HTTP 401\)"),
        ("/403/a.npy", r"is not readable \(HTTP 403\)"),
        ("/404/a.npy", "does not exist"),
        ("/410/a.npy", "does not exist"),
        ("/429/a.npy", "the server answered HTTP 429"),
        ("/500/a.npy", r"the server answered HTTP 500\. Try again later"),
        ("/503/a.npy", "the server answered HTTP 503"),
        ("/503/m.json", "the server answered HTTP 503"),
    ],
)
def test_what_a_server_answers_is_said(http_files, path, words):
    with (
        serving({}) as (host, _),
        pytest.raises(StorageError, match=rf"{path}\?\*\*\* {words}|{words}") as caught,
    ):
        rank_shards(QUERIES, f"{host}{path}?{SIGNED}", 1)
    assert not has_secret("".join(map(str, causes_of(caught.value))))
    assert not has_secret(caught.value)
    assert ("does not exist" in str(caught.value)) == (path[1:4] in ("404", "410"))


def test_a_refused_connection_is_said(http_files):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/a.npy?{SIGNED}"
        with pytest.raises(StorageError, match=r"a\.npy\?\*\*\* cannot be reached") as caught:
            rank_shards(QUERIES, url, 1)
    assert not has_secret(caught.value)
    assert "does not exist" not in str(caught.value)


@pytest.mark.parametrize("key", ["path", "ids"])
@pytest.mark.parametrize(
    "name",
    [
        "/etc/hostname.npy",
        "file:///etc/hostname.npy",
        "local:///etc/hostname.npy",
        "memory://elsewhere/a.npy",
        "memory://manifests-of-test/a.npy::file:///etc/hostname.npy",
        "a.npy::file:///etc/hostname.npy",
    ],
)
def test_a_manifest_elsewhere_names_no_file_of_this_machine(key, name, monkeypatch):
    memory = fsspec.filesystem("memory")
    shard = {"path": "a.npy", key: name}
    memory.pipe("/manifests-of-test/m.json", json.dumps({"shards": [shard]}).encode())
    try:
        with pytest.raises(UsageError, match="outside its folder"):
            open_shards("memory://manifests-of-test/m.json")
    finally:
        memory.rm("/manifests-of-test", recursive=True)


def test_a_manifest_here_may_name_a_folder_but_no_protocol(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("data/a::memory://x/a.npy", "data/x://a.npy"):
        (tmp_path / "data" / "m.json").write_text(json.dumps({"shards": [name]}))
        with pytest.raises(UsageError, match="outside its folder"):
            open_shards("data/m.json")


def test_an_address_shows_itself_masked_and_stays_whole():
    url = f"https://me:{PASSWORD}@host/a.npy?{SIGNED}"
    (shard,) = open_shards(Shard(url))
    address = shard.path
    assert address == url
    for shown in (f"{address}", str(address), repr(address), f"{shard}", f"{address!r:.90}"):
        assert "https://me:***@host/a.npy?***" in shown
        assert not has_secret(shown)
    assert open_shards([shard]) == (shard,)
    copy = pickle.loads(pickle.dumps(address))
    assert isinstance(copy, Address)
    assert copy == url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://h/a?{SIGNED}", "https://h/a?***"),
        (f"[GET 'https://h/a?{SIGNED}' failed]", "[GET 'https://h/a?***' failed]"),
        ("https://ghp_secret@h/a", "https://***@h/a"),
        ("https://me:x@h/a?sig=1", "https://me:***@h/a?***"),
        ("s3://bucket/part-?.npy", None),
        ("abfs://c/a.npy?sv=1&sig=2", "abfs://c/a.npy?***"),
        ("simplecache::https://h/a?x", "simplecache::https://h/a?***"),
        ("rerank:https://h/v1?model=m&key_env=KEY", None),
        ("postgresql://me@host/db?sslmode=require", None),
        ("which of these? see https://h/a", None),
    ],
)
def test_what_of_an_address_is_masked(text, shown):
    assert mask_secrets(text) == (text if shown is None else shown)


def test_a_record_holds_no_secret():
    url = f"https://me:{PASSWORD}@h/a.npy?{SIGNED}"
    record = RunRecord("r", command=["rank", url], config={"a": [url], "b": {"c": (url,)}})
    assert not has_secret(record)
    assert record.config["b"]["c"] == ("https://me:***@h/a.npy?***",)
    keys = RunRecord("r", data={url: {"bytes": 1}}, config={"a": {url: 1}})
    assert not has_secret(keys)
    assert list(keys.data) == ["https://me:***@h/a.npy?***"]


def test_a_command_without_its_secret_is_not_repeated():
    command = StoredCommand(["rank", "q.npy", "https://h/a.npy?***", "-o", "run.txt"])
    with pytest.raises(UsageError, match="Type the command yourself"):
        command.check(Consent.of(endpoints=["h"]), "The run")


def test_a_checkpoint_holds_no_secret(here, http_files):
    with serving({"/b/a.npy": npy(DOCS)}) as (host, _):
        url = f"{host}/b/a.npy?{SIGNED}"
        first = rank_shards(QUERIES, url, 1, cluster=Cluster(checkpoint="ck"))
        again = rank_shards(QUERIES, url, 1, cluster=Cluster(checkpoint="ck"))
    assert ranking_bytes(first) == ranking_bytes(again)
    assert not [one for one in (here / "ck").iterdir() if has_secret(one.read_bytes())]


def test_an_address_where_a_file_is_read(here, assay):
    url = f"https://me:{PASSWORD}@h/run.txt?{SIGNED}"
    answer = assay("eval", url, "-r", "qrels.txt")
    assert answer.code == 5
    assert "https://me:***@h/run.txt?*** is a web address" in answer.err
    with pytest.raises(StorageError, match=r"is a web address.* Download it first") as caught:
        read_run(url)
    assert not has_secret(f"{caught.value}{answer.err}{answer.out}")


BENCH = "bench --corpus docs.jsonl --queries queries.jsonl --qrels qrels.tsv --model bm25"


@pytest.mark.parametrize("scheme", ["https://", "s3://", "https:/"])
@pytest.mark.parametrize(
    "command",
    [
        "eval a.run -r qrels.txt -o",
        "report a.run -r qrels.txt -o",
        "convert a.run",
        "rank q.npy d.npy -o",
        "encode texts.jsonl -e wordllama -o",
        "demo --files",
        "codes --demo",
        f"{BENCH} --no-cache --runs",
        f"{BENCH} --cache",
        "pool a.run -o",
    ],
)
def test_an_address_is_no_place_to_write_to(tmp_path, monkeypatch, assay, command, scheme):
    monkeypatch.chdir(tmp_path)
    answer = assay(*command.split(), f"{scheme}me:{PASSWORD}@host/out.json")
    assert answer.code == 5, answer.err
    shown = f"{scheme.rstrip('/')}//me:***@host/out.json is a web address, and results are written"
    assert shown in answer.err
    assert not has_secret(f"{answer.err}{answer.out}")
    assert not [*tmp_path.iterdir()]


def test_a_folder_with_a_colon_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "run:").mkdir()
    monkeypatch.chdir(tmp_path)
    with atomic_write("run:/a.run") as file:
        file.write(b"q Q0 d 1 1 t")
    assert (tmp_path / "run:" / "a.run").exists()
