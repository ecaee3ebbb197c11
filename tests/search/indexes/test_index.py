"""Specs, what an index makes of answers, what is left behind, and how it is measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import Ranking, rank
from assay.errors import InputError, StorageError, UsageError
from assay.search.indexes import INDEXES, build_index, measure_index
from assay.search.indexes.base import EngineBytes, Options, Setup, opener_of, parse_spec
from assay.search.indexes.index import Index, prepare_docs
from tests.search.indexes.places import clustered
from tests.waiting import until


class Answers:
    """An engine that answers with what it is told."""

    version = "made up"

    def __init__(self, *answers: Any, exactness: Any = "approximate") -> None:
        self.answers = list(answers)
        self.exactness = exactness
        self.asked: list[int] = []

    def add(self, vectors: Any) -> None: ...

    def find(self, queries: Any, k: int) -> Any:
        self.asked.append(k)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def size(self) -> EngineBytes:
        return EngineBytes()

    def close(self) -> None: ...


def index_of(engine: Answers, docs: Any, metric: Any = "dot") -> Index:
    setup = Setup("", Options("exact", {}), 2, metric, None, "made-up")
    return Index(engine, prepare_docs(docs, metric, None), setup, seconds=0.5, doc_ids=None)


LINE = np.column_stack([np.arange(10.0), np.ones(10)])  # document i scores i
QUERY = [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ([[3, 9, 5]], [9, 5, 3]),
        ([[9, -1, 5]], [9, 5]),
        ([[9, 9, 5]], [9, 5]),
        ([[9, 5]], [9, 5]),
        (np.array([[1, 2, 3]], np.uint64), [3, 2, 1]),
        ([[1, 2, 3, 4, 5]], [5, 4, 3]),
        ([[-1, -1, -1]], []),
        (np.zeros((1, 0), int), []),
    ],
)
def test_any_answer_is_put_in_order(answer: Any, wanted: list[int]) -> None:
    indices, scores = index_of(Answers(np.asarray(answer)), LINE).search(QUERY, 3)
    assert indices.tolist() == [wanted + [-1] * (3 - len(wanted))]
    np.testing.assert_array_equal(scores, [[*wanted, *[np.nan] * (3 - len(wanted))]])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([[10, 1, 2]], "document 10 of 10"),
        ([[-2, 1, 2]], "document -2 of 10"),
        ([[np.nan, 1, 2]], "float64"),
        ([1, 2, 3], r"shape \(3,\)"),
        ([[1], [2]], r"shape \(2, 1\)"),
        ([["1"]], "expected a row"),
    ],
)
def test_a_wrong_answer_is_refused(answer: Any, words: str) -> None:
    with pytest.raises(StorageError, match=rf"made-up.*{words}"):
        index_of(Answers(np.asarray(answer)), LINE).search(QUERY, 3)


def test_an_exhaustive_engine_is_asked_again_until_rounding_cannot_matter() -> None:
    """The best twenty differ by less than float32 tells; the engine names them in its own order."""
    docs = np.column_stack([np.r_[1 + 1e-9 * np.arange(40), np.zeros(60)], np.ones(100)])
    order = [*range(40), *range(40, 100)]  # as if the forty were equal
    engine = Answers(np.array([order[:18]]), np.array([order[:72]]), exactness="exact")
    indices, scores = index_of(engine, docs).search(QUERY, 2)
    assert engine.asked == [18, 72]
    assert indices.tolist() == [[39, 38]]
    assert scores.tolist() == rank(QUERY, docs, 2, metric="dot").scores.reshape(1, 2).tolist()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("fais:Flat", "Unknown index 'fais:Flat'.*Did you mean faiss:FACTORY"),
        ("", "Unknown index ''. Known: exact, faiss:FACTORY"),
        (None, "An index must be a spec"),
        ("exact?k=3", "Unknown option 'k' in exact\\?k=3.*Known: none"),
        ("usearch?conectivity=3", "Did you mean connectivity"),
        ("usearch?connectivity=0", "connectivity must be a whole number"),
        ("usearch?connectivity=3&connectivity=4", "each name once"),
        ("usearch?connectivity", "each once|whole number"),
        ("usearch?exact=maybe", "exact must be one of false, true"),
        ("usearch?dtype=i8", "metric cosine only"),
        ("usearch:HNSW", "options only"),
        ("sqlite-vec:x.db", "no argument"),
        ("faiss:HNNSW32", "cannot be made.*could not parse index string HNNSW32"),
        ("faiss:Flat?efSearch=3", "cannot take efSearch=3"),
        ("faiss:HNSW8?efSearch=x", "cannot take efSearch=x"),
        ("faiss:IVF100,Flat", "cannot be built.*100"),
        ("lancedb:IVF", "LanceDB has no index 'IVF'.*IVF_FLAT"),
        ("lancedb?nprobes=3", "Unknown option 'nprobes'"),
        ("qdrant?hnsw_ef=3", "Unknown option 'hnsw_ef'"),
    ],
)
def test_specs_that_make_no_sense(spec: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build_index(spec, clustered(20, seed=1), metric="dot")


def test_faiss_can_refuse_after_usearch_was_used() -> None:
    """In a new process: the two share C++ symbols, and the order of loading matters."""
    script = """
import numpy as np
from assay.search.indexes import build_index
from assay.errors import UsageError
build_index("usearch", np.eye(4)).close()
try: build_index("faiss:nonsense", np.eye(4))
except UsageError: print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused\n"


def test_every_kind_is_a_module_with_an_extra() -> None:
    import tomllib

    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for kind in INDEXES.values():
        assert callable(kind.load())
        assert kind.extra is None or kind.extra in extras
    wanted = sorted(kind.extra for kind in INDEXES.values() if kind.extra)
    assert extras["indexes"] == [f"assay-eval[{','.join(wanted)}]"]


def test_a_password_is_never_shown() -> None:
    for spec in (
        "pgvector:postgresql://me:s3cret@127.0.0.1:1/x",
        "pgvector:postgresql://127.0.0.1:1/x?user=me&password=s3cret&connect_timeout=2",
        "pgvector:postgresql://me:s3cret:@127.0.0.1:1/x?index=hnsw",
        "pgvector:postgresql://me:s3cret@127.0.0.1:port/x",
    ):
        with pytest.raises(StorageError, match="No connection to PostgreSQL") as caught:
            build_index(spec, clustered(5, seed=1))
        assert "s3cret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert parse_spec(spec).text.count("***") == 1


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(StorageError, match=r"qdrant:http://127.0.0.1:1 failed"):
        build_index("qdrant:http://127.0.0.1:1", clustered(5, seed=1))


def test_bad_arguments() -> None:
    docs = clustered(5, seed=1)
    with pytest.raises(UsageError, match="metric must be"):
        build_index("exact", docs, metric="hamming")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="threads must be"):
        build_index("exact", docs, threads=0)
    with build_index("exact", docs) as index:
        with pytest.raises(InputError):
            index.rank(docs, 1, query_ids=["a"])
        assert repr(index) == "Index('exact', 5 documents, cosine, certified)"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("disk on fire")])
@pytest.mark.parametrize("kind", ["sqlite-vec", "lancedb", "qdrant", "faiss:Flat", "usearch"])
def test_nothing_is_left_when_building_fails(
    kind: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, closed = opener_of(parse_spec(kind))(_setup()), []
    first.close()
    engine_class = type(first)

    def fails(self: Any, vectors: Any) -> None:
        raise error

    close = engine_class.close
    monkeypatch.setattr(engine_class, "add", fails)
    monkeypatch.setattr(engine_class, "close", lambda self: (closed.append(1), close(self)))
    expected = StorageError if isinstance(error, Exception) else KeyboardInterrupt
    with pytest.raises(expected):
        build_index(kind, clustered(5, seed=1), metric="l2")
    assert closed == [1]
    assert not list(tmp_path.glob("assay-index-*"))


def _setup() -> Setup:
    return Setup("", Options("exact", {}), 2, "l2", None, "made-up")


@pytest.mark.parametrize("kind", ["sqlite-vec", "lancedb"])
def test_an_own_folder_goes_with_the_index(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with build_index(kind, clustered(30, seed=1)) as index:
        assert len(list(tmp_path.glob("assay-index-*"))) == 1
        assert (index.size().disk or 0) > 30 * 16 * 4
    index.close()
    assert not list(tmp_path.iterdir())


INTERRUPTED = """
import sys, numpy as np
from assay.search.indexes import Index, build_index
def slow(self, ready, k):
    print("searching", flush=True)
    while True: pass
Index.find = slow
index = build_index("sqlite-vec", np.eye(4))
index.search(np.eye(4), 1)
"""


def test_ctrl_c_leaves_no_folder(tmp_path: Path) -> None:
    """Without a `with` statement, so that the end of the process must see to it."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"searching\n"
        assert len(list(tmp_path.glob("assay-index-*"))) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
    assert not list(tmp_path.iterdir())


def test_the_server_drops_the_table_of_a_killed_process(postgres_url: str) -> None:
    import psycopg

    script = (
        "import numpy as np, os; from assay.search.indexes import build_index;"
        f"index = build_index('pgvector:{postgres_url}', np.eye(4));"
        "print(index.search(np.eye(4), 1)[0].ravel().tolist(), flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (-9, "[0, 1, 2, 3]\n")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        tables = "SELECT count(*) FROM pg_class WHERE relname = 'docs'"
        until(lambda: connection.execute(tables).fetchone() == (0,))


def test_recall_counts_tied_documents_and_overlap_the_same_ones() -> None:
    docs = np.float32([[3, 0], [2, 0], [2, 0], [2, 0], [1, 0]])
    index = index_of(Answers(np.array([[0, 3]])), docs)
    report = measure_index(index, QUERY, 2)
    assert (report.recall, report.overlap, report.short) == (1.0, 0.5, 0)
    report = measure_index(index_of(Answers(np.array([[4, -1]])), docs), QUERY, 2)
    assert (report.recall, report.overlap, report.short) == (0.0, 0.0, 1)


def test_agreement_equals_sets() -> None:
    docs, queries = clustered(400, seed=13), clustered(30, seed=14)
    with build_index("faiss:IVF20,Flat?nprobe=1", docs, threads=1) as index:
        report = measure_index(index, queries, 10, exact=rank(queries, docs, 25))
        found = index.search(queries, 10)[0]
    exact = rank(queries, docs, 10).docs.reshape(30, 10)
    wanted = [
        len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)
    ]
    assert report.overlaps.tolist() == report.recalls.tolist() == wanted
    assert 0.3 < report.overlap < 1.0
    assert report.overlap == pytest.approx(float(np.mean(wanted)), abs=1e-15)


def test_a_report_is_json_without_the_single_queries() -> None:
    docs = clustered(50, seed=15)
    with build_index("faiss:HNSW8", docs) as index:
        report = measure_index(index, docs[:7], 100, latency_queries=3)
    said = json.loads(json.dumps(report.as_dict()))
    assert said["k"] == said["n_docs"] == 50
    assert (said["n_queries"], said["spec"]) == (7, "faiss:HNSW8")
    assert list(said["latency_ms"]) == ["p50", "p95", "p99"]
    assert said["queries_per_second"] > 0
    assert said["memory_bytes"] > 50 * 16 * 4
    assert "recalls" not in said


def test_an_exact_ranking_of_something_else_is_refused() -> None:
    docs = clustered(20, seed=16)
    with build_index("exact", docs) as index:
        for wrong in (
            rank(docs[:3], docs, 5),
            rank(docs[:2], docs[:10], 5),
            rank(docs[:2], docs, 4),
            Ranking.from_arrays([[0, 1, 2, 3, 4]] * 2),
        ):
            with pytest.raises(InputError):
                measure_index(index, docs[:2], 5, exact=wrong)
