"""Files that change while they are read: an error with the file's name, never a number or a signal.

What may end the process runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError, StorageError
from assay.io.mapped import WatchedFile, copy_mapped
from assay.search.engine import codes, prepare, rank, rank_codes, search

ENGINES = pytest.mark.parametrize("native", ["1", "0"])

_COMMON = """
import faulthandler, json, os, shutil, sys
import numpy as np
faulthandler.enable()
from assay.errors import AssayError
from assay.io.mapped import WatchedFile

def save(name, array):
    np.save(name, array)
    os.utime(name, ns=(10**18, 10**18))

def change(name, how):
    size = os.path.getsize(name)
    if how == "truncate":
        os.truncate(name, 200)
    elif how == "replace":
        shutil.copyfile(name, name + ".new")
        os.utime(name + ".new", ns=(10**18, 10**18))
        os.replace(name + ".new", name)
    elif how == "grow":
        with open(name, "ab") as file:
            file.write(b"x")
    else:
        with open(name, "r+b") as file:
            file.seek(size // 2)
            file.write(bytes(1000))

def change_at(name, how, call):
    # Change a file right after the call-th part of it was mapped or read.
    real, calls = WatchedFile.map, []
    def map_and_change(self, *arguments):
        content = real(self, *arguments)
        if os.path.abspath(self.name) == os.path.abspath(name):
            calls.append(1)
            if len(calls) == call:
                change(name, how)
        return content
    WatchedFile.map = map_and_change
    return lambda: (setattr(WatchedFile, "map", real), len(calls))[1]
"""

_LIBRARY = (
    _COMMON
    + """
from assay.cluster import rank_code_shards, rank_shards, target_rank_shards
from assay.search.engine import (
    Codes, distance_histogram, pack_codes, plan, prepare, rank, rank_codes, rerank, target_ranks,
    target_ranks_from_scores, inputs,
)
from assay.search.indexes.index import prepare_docs
from assay.prediction import evaluate_confidence
from assay.io.arrays import NpyRows
from assay.search.safetensors import load_safetensors

inputs.WINDOW_BYTES = plan.COARSE_BYTES = 1 << 20
rng = np.random.default_rng(1)
queries = rng.normal(size=(3, 32)).astype("f4")
many = rng.normal(size=(200, 32)).astype("f4")
docs = rng.normal(size=(20_000, 32)).astype("f4")
bits = docs > 0
ranking = rank(queries, docs, 5)
targets = [3, 4, 5]

def mapped(name):
    return np.load(name, mmap_mode="r")

WAYS = {
    "rank": lambda name: rank(queries, name, 5),
    "rank many": lambda name: rank(many, name, 5),
    "rank l2 numpy": lambda name: rank(queries, name, 5, metric="l2", engine="numpy"),
    "rank queries": lambda name: rank(name, docs[:100], 5),
    "rank blocks": lambda name: rank(queries, iter([name]), 5),
    "targets": lambda name: target_ranks(queries, name, targets),
    "targets many": lambda name: target_ranks(many, name, np.arange(200)),
    "rerank": lambda name: rerank(ranking, queries, docs=name),
    "prepare": lambda name: prepare(name),
    "prepared": lambda name: rank(queries, prepare(name), 5),
    "prepared file": lambda name: rank(queries, prepare(name, "kept.bin"), 5),
    "kept file": lambda name: rank(queries, prepare(name, "kept.bin"), 5),
    "index": lambda name: prepare_docs(name, "cosine", None),
    "pack": lambda name: pack_codes(NpyRows("bits.npy")),
    "codes": lambda name: rank_codes(
        Codes(np.packbits(queries > 0, axis=1), 32), Codes(NpyRows("packed.npy"), 32), 5),
    "distances": lambda name: distance_histogram(
        Codes(np.packbits(queries > 0, axis=1), 32), Codes(NpyRows("packed.npy"), 32)),
    "scores": lambda name: target_ranks_from_scores(NpyRows(name), np.zeros(20_000, int)),
    "confidence": lambda name: evaluate_confidence(NpyRows(name), np.zeros(20_000, int)),
    "shards": lambda name: rank_shards(queries, [name], 5),
    "target shards": lambda name: target_rank_shards(queries, [name], targets),
    "code shards": lambda name: rank_code_shards(queries > 0, ["bits.npy"], 5),
    "safetensors": lambda name: load_safetensors("docs.safetensors"),
}
FILES = {"kept file": "kept.bin", "pack": "bits.npy", "codes": "packed.npy",
         "distances": "packed.npy",
         "code shards": "bits.npy", "safetensors": "docs.safetensors"}

def restore(way):
    if os.path.exists("kept.bin"):
        os.unlink("kept.bin")
    save("docs.npy", docs)
    save("bits.npy", bits)
    save("packed.npy", np.packbits(bits, axis=1))
    head = json.dumps({"a": {"dtype": "F32", "shape": [20_000, 32],
                             "data_offsets": [0, docs.nbytes]}}).encode()
    with open("docs.safetensors", "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head + docs.tobytes())
    os.utime("docs.safetensors", ns=(10**18, 10**18))
    if way == "kept file":
        prepare("docs.npy", "kept.bin")
        os.utime("kept.bin", ns=(10**18, 10**18))

outcomes = []
for way, work in WAYS.items():
    restore(way)
    name = FILES.get(way, "docs.npy")
    stop = change_at(name, "none", 0)
    work("docs.npy")
    parts = stop()
    for how in ("truncate", "replace", "grow", "overwrite"):
        for call in sorted({1, 2, (parts + 1) // 2, parts} & set(range(1, parts + 1))):
            restore(way)
            stop = change_at(name, how, call)
            try:
                work("docs.npy")
                outcome = "no error"
            except AssayError as error:
                outcome = f"{type(error).__name__} {error}"
            stop()
            outcomes.append([way, how, call, outcome])
print(json.dumps(outcomes))
"""
)


def run(
    script: str, folder: Path, *arguments: str, native: str = "1"
) -> subprocess.CompletedProcess:
    environment = {**os.environ, "ASSAY_NATIVE": native}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("native", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_every_way_to_read_a_file_notices_every_change(tmp_path, native):
    done = run(_LIBRARY, tmp_path, native=native)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert len({way for way, *_ in outcomes}) == 22
    for way, how, call, outcome in outcomes:
        if native == "0" and way in ("codes", "distances"):
            assert outcome == "no error"  # it was read whole before the change
            continue
        assert outcome.startswith("StorageError"), (way, how, call, outcome)
        assert "changed while" in outcome, (way, how, call, outcome)
        assert any(name in outcome for name in ("docs.", "bits.npy", "packed.npy", "kept.bin")), (
            outcome
        )
    assert "Bus error" not in done.stderr


_MAPS = (
    _COMMON
    + """
from assay.search.engine import prepare, rank, target_ranks, target_ranks_from_scores
rng = np.random.default_rng(1)
queries = rng.normal(size=(3, 32)).astype("f4")
docs = rng.normal(size=(20_000, 32)).astype("f4")
name = "docs.npy"

WAYS = {
    "rank": lambda mapped, hook: rank(queries, mapped, 5, progress=hook),
    "blocks": lambda mapped, hook: rank(queries, iter([mapped]), 5, progress=hook),
    "part": lambda mapped, hook: rank(queries, np.asarray(mapped)[100:], 5, progress=hook),
    "columns": lambda mapped, hook: rank(queries, mapped[:, ::-1], 5, progress=hook),
    "list": lambda mapped, hook: target_ranks(queries, [mapped], [1, 2, 3], progress=hook),
    "targets": lambda mapped, hook: target_ranks(queries, mapped, [1, 2, 3], progress=hook),
    "prepared": lambda mapped, hook: rank(queries, prepare(mapped), 5, progress=hook),
    "scores": lambda mapped, hook: target_ranks_from_scores(
        mapped, np.zeros(len(mapped), int), progress=hook),
}
outcomes = []
for way, work in WAYS.items():
    for how in ("truncate", "replace", "grow", "overwrite"):
        save(name, docs)
        mapped = np.load(name, mmap_mode="r")
        done = []
        def hook(*_):
            if not done:
                done.append(1)
                change(name, how)
        try:
            work(mapped, hook)
            outcome = "no error"
        except AssayError as error:
            outcome = f"{type(error).__name__} {error}"
        outcomes.append([way, how, outcome])

# A map that lost pages before, and one whose file was made whole again meanwhile.
save(name, docs)
mapped = np.load(name, mmap_mode="r")
os.truncate(name, 200)
for _ in range(2):
    try:
        rank(queries, mapped, 5)
        outcomes.append(["before", "truncate", "no error"])
    except AssayError as error:
        outcomes.append(["before", "truncate", f"{type(error).__name__} {error}"])

# A file of another name, mapped and then replaced in an orderly way, is what was mapped.
save(name, docs)
mapped = np.load(name, mmap_mode="r")
save("other.npy", docs[::-1].copy())
os.replace("other.npy", name)
assert rank(queries, mapped, 5).docs.tolist() == rank(queries, docs, 5).docs.tolist()
os.unlink(name)
assert rank(queries, mapped, 5).docs.tolist() == rank(queries, docs, 5).docs.tolist()
anonymous = __import__("mmap").mmap(-1, docs.nbytes)
anonymous[:] = docs.tobytes()
found = rank(queries, np.frombuffer(anonymous, "f4").reshape(docs.shape), 5)
assert found.docs.tolist() == rank(queries, docs, 5).docs.tolist()
print(json.dumps(outcomes))
"""
)


@ENGINES
def test_maps_that_a_caller_made(tmp_path, native):
    done = run(_MAPS, tmp_path, native=native)
    assert done.returncode == 0, done.stderr[-2000:]
    for way, how, outcome in json.loads(done.stdout):
        assert outcome.startswith("StorageError"), (way, how, outcome)
        assert "docs.npy" in outcome, (way, how, outcome)


_ANY_MOMENT = (
    _COMMON
    + """
import threading, time
from assay.io.mapped import FileState
from assay.search.engine import prepare, rank
rng = np.random.default_rng(1)
queries = rng.normal(size=(40, 32)).astype("f4")
docs = rng.normal(size=(20_000, 32)).astype("f4")
other_docs = docs.copy()
other_docs[5_000:6_000] = docs[:1_000]
right = [rank(queries, content, 10).scores.tobytes() for content in (docs, other_docs)]

def change(name, how, change=change):
    if how != "overwrite":
        return change(name, how)
    with open(name, "r+b", buffering=0) as file:
        file.seek(os.path.getsize(name) - docs[5_000:].nbytes)
        writing.append(time.monotonic_ns())
        file.write(docs[:1_000].tobytes())
        writing.append(time.monotonic_ns())

# A write is stamped when it begins: who looks first while it goes on sees no change of the stamp.
writing, looks, look = [], [], FileState.of
def note(stat):
    looks.append(time.monotonic_ns())
    return look(stat)
FileState.of = note

def began_within_a_write():
    return bool(writing) and writing[0] < looks[0] < (writing[1:] or [looks[0] + 1])[0]

counts = {"right": 0, "error": 0, "within a write": 0}
for attempt in range(60):
    save("docs.npy", docs)
    writing.clear()
    source = ["docs.npy", np.load("docs.npy", mmap_mode="r")][attempt % 2]
    start = threading.Barrier(2)
    def cut():
        start.wait()
        for _ in range(attempt * 50):
            pass
        change("docs.npy", ["truncate", "overwrite", "replace"][attempt % 3])
    other = threading.Thread(target=cut)
    other.start()
    start.wait()
    looks.clear()
    try:
        whole = rank(queries, source, 10).scores.tobytes() in right  # before the change, or after
        other.join()
        assert whole or began_within_a_write(), (attempt, writing, looks)
        counts["right" if whole else "within a write"] += 1
    except AssayError as error:
        assert "docs.npy" in str(error), error
        counts["error"] += 1
    other.join()
print(json.dumps(counts))
"""
)


@ENGINES
def test_at_any_moment_the_answer_is_right_or_refused(tmp_path, native):
    done = run(_ANY_MOMENT, tmp_path, native=native)
    assert done.returncode == 0, done.stderr[-2000:]
    assert sum(json.loads(done.stdout).values()) == 60


_COMMAND = (
    _COMMON
    + """
from assay.cli.main import main
change_at(sys.argv[1], sys.argv[2], 1)
if sys.argv[3] == "read":
    real = WatchedFile.read_bytes
    def read_and_change(self, *arguments):
        content = real(self, *arguments)
        if os.path.basename(self.name) == sys.argv[1]:
            change(sys.argv[1], sys.argv[2])
        return content
    WatchedFile.read_bytes = read_and_change
sys.exit(main(sys.argv[4:]))
"""
)


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(2)
    docs = rng.normal(size=(20_000, 16)).astype("f4")
    np.save(tmp_path / "docs.npy", docs)
    np.save(tmp_path / "queries.npy", docs[:30])
    np.save(tmp_path / "few.npy", docs[:40])
    for name in ("docs.npy", "queries.npy", "few.npy"):
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    return tmp_path


@pytest.mark.parametrize(
    ("how", "native", "more"),
    [
        ("truncate", "1", ()),
        ("truncate", "0", ()),
        ("overwrite", "1", ("--prepare", "kept.bin")),
        pytest.param("truncate", "1", ("--prepare", "kept.bin"), marks=pytest.mark.slow),
        ("replace", "1", ()),
        ("grow", "1", ("--query-block", "10")),
        pytest.param("truncate", "1", ("--query-block", "10"), marks=pytest.mark.slow),
    ],
)
def test_the_command_ends_with_5_and_writes_no_run(corpus, how, native, more):
    words = ("rank", "queries.npy", "docs.npy", "-k", "5", "-o", "run.txt", *more)
    done = run(_COMMAND, corpus, "docs.npy", how, "map", *words, native=native)
    assert done.returncode == 5, (done.returncode, done.stderr[-2000:])
    assert "docs.npy" in done.stderr
    assert "changed while" in done.stderr
    assert not (corpus / "run.txt").exists()
    assert not (corpus / "kept.bin").exists()


@pytest.mark.parametrize("how", [pytest.param("truncate", marks=pytest.mark.slow), "overwrite"])
def test_a_bench_of_vectors_from_a_file(corpus, how):
    texts = [json.dumps({"_id": f"d{n}", "text": f"text {n}"}) for n in range(40)]
    (corpus / "corpus.jsonl").write_text("\n".join(texts))
    asked = [json.dumps({"_id": f"q{n}", "text": f"text {n}"}) for n in range(30)]
    (corpus / "queries.jsonl").write_text("\n".join(asked))
    (corpus / "qrels.txt").write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(30)))
    words = ["bench", "--corpus", "corpus.jsonl", "--queries", "queries.jsonl"]
    words += ["--qrels", "qrels.txt", "--model", "npy:few.npy,queries.npy", "--model", "bm25"]
    done = run(_COMMAND, corpus, "few.npy", how, "read", *words)
    assert done.returncode == 5, (done.returncode, done.stderr[-2000:])
    assert "few.npy changed while" in done.stderr


_OTHERS = """
import mmap, os, sys
import numpy as np
from assay.search.engine import rank
np.save("docs.npy", np.ones((5000, 8), "f4"))
rank(np.ones((1, 8)), "docs.npy", 3)
if sys.argv[1] == "late":
    import faulthandler
    faulthandler.enable()
    rank(np.ones((1, 8)), "docs.npy", 3)
mine = np.load("docs.npy", mmap_mode="r")
os.truncate("docs.npy", 100)
print("before", flush=True)
mine.sum()
print("after", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGBUS"), reason="no such signal here")
@pytest.mark.parametrize("when", ["alone", "late"])
def test_faults_of_others_are_theirs(tmp_path, when):
    done = run(_OTHERS, tmp_path, when)
    assert done.returncode == -signal.SIGBUS
    assert done.stdout == "before\n"
    assert ("Bus error" in done.stderr) == (when == "late")


def test_an_exact_search_that_finds_too_few_contradicts_itself(monkeypatch):
    rng = np.random.default_rng(3)
    docs, queries = rng.normal(size=(50, 8)), rng.normal(size=(4, 8))
    real = search.join_lists

    def lose_one(tops, most):
        offsets, docs_, scores, tie_split = real(tops, most)
        cut = offsets - (np.arange(len(offsets)) > 2)
        inside = np.arange(len(docs_)) != offsets[3] - 1
        return search.RankedLists(cut, docs_[inside], scores[inside], tie_split)

    monkeypatch.setattr(search, "join_lists", lose_one)
    with pytest.raises(InputError, match=r"returned 9 of 10 documents for query row 2.* 1 of 4 qu"):
        rank(queries, docs, 10)
    pairs = [(2, doc) for doc in range(45)]
    with pytest.raises(InputError, match="returned 4 of 5 documents for query row 2"):
        rank(queries, docs, 10, exclude=pairs)
    rank(queries, docs, 10, floors=np.full(4, -1.0))


def test_an_exact_search_of_codes_that_finds_too_few(monkeypatch):
    bits = np.random.default_rng(3).random((50, 16)) > 0.5
    real = codes.find_nearest

    def lose_one(*arguments):
        found = real(*arguments)
        counts = found.counts.copy()
        counts[-1] -= 1
        return found._replace(counts=counts, docs=found.docs[:-1], distances=found.distances[:-1])

    monkeypatch.setattr(codes, "find_nearest", lose_one)
    with pytest.raises(InputError, match="returned 9 of 10 documents"):
        rank_codes(bits[:3], bits, 10)


@pytest.mark.parametrize("zero", ["drop", "last"])
@pytest.mark.parametrize("exclude", [None, "self"])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_lists_that_are_rightly_short_are_not_refused(zero, exclude, metric):
    vectors = np.random.default_rng(4).normal(size=(12, 4))
    vectors[[0, 5, 7]] = 0.0
    found = rank(vectors, vectors, 30, zero=zero, exclude=exclude, metric=metric)
    drops = metric == "cosine" and zero == "drop"
    for row, length in enumerate(found.lengths):
        zeros = set() if not drops else {0, 5, 7}
        expected = set(range(12)) - zeros - ({row} if exclude else set())
        assert length == (0 if drops and row in zeros else len(expected))


def test_what_was_read_whole_outlives_the_file(tmp_path):
    rows = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "a.npy", rows)
    file = WatchedFile(str(tmp_path / "a.npy"))
    content = file.read(file.size - rows.nbytes, rows.shape, rows.dtype)
    os.truncate(tmp_path / "a.npy", 10)
    assert content.tolist() == rows.tolist()
    with pytest.raises(StorageError, match=r"a\.npy changed while it was read"):
        file.check()


@pytest.mark.parametrize(
    "part",
    [
        np.s_[:],
        np.s_[5:9],
        np.s_[::3],
        np.s_[:, 2:5],
        np.s_[:, ::2],
        np.s_[::-1],
        np.s_[:, 1],
        np.s_[::2, 3],
        np.s_[::-2, 3],
        np.s_[:0],
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_system_copies_any_layout(tmp_path, part, order):
    np.save(tmp_path / "a.npy", np.asarray(np.arange(200.0).reshape(20, 10), order=order))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert np.array_equal(copy_mapped(mapped[part]), np.array(mapped[part]))


def test_a_prepared_corpus_is_of_its_files(tmp_path):
    docs = np.random.default_rng(5).normal(size=(5000, 32)).astype("f4")
    np.save(tmp_path / "docs.npy", docs)
    prepare(tmp_path / "docs.npy", tmp_path / "kept.bin")
    for name in ("docs.npy", "kept.bin"):
        prepared = prepare(tmp_path / "docs.npy", tmp_path / "kept.bin")
        assert rank(docs[:3], prepared, 5).docs.tolist() == rank(docs[:3], docs, 5).docs.tolist()
        content = (tmp_path / name).read_bytes()
        os.truncate(tmp_path / name, 500)
        for _ in range(2):
            with pytest.raises(StorageError, match=f"{name} changed while it was read"):
                rank(docs[:3], prepared, 5)
            (tmp_path / name).write_bytes(content)  # what was lost stays lost
