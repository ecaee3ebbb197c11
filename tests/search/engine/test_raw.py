"""Documents searched as they are stored: the same bytes as when they are measured first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from assay.errors import ValueRangeError
from assay.native import engine_name, load
from assay.search.engine import plan, rank
from assay.search.engine import search as searching
from assay.search.engine.blocks import Metric, Sizes, axis_of, raw_docs, signs_of
from assay.search.engine.inputs import raw_windows, stored_as
from tests.search.engine.nasty import METRICS
from tests.search.engine.test_same_bytes import always_coarse, widths

pytestmark = pytest.mark.skipif(
    engine_name() != "native" or not load("native").fused_rows(), reason="needs the fused product"
)
TYPES = ["float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16"]


def rows_of(name: str, n: int, columns: int, seed: int = 3) -> np.ndarray:
    """Rows of a type, some of them equal, none of them zero."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, columns))
    if "int" in name:
        rows = np.abs(rows * 40).clip(0, 127) if name[0] == "u" else (rows * 40).clip(-127, 127)
    rows[2::7] = rows[0]
    rows = rows.astype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    rows[~rows.any(axis=1), 0] = 1
    return rows


def bytes_of(found) -> tuple[bytes, ...]:
    return found.offsets.tobytes(), found.docs.tobytes(), found.scores.tobytes()


def raw_plan(queries, docs, metric="cosine", k=5):
    """How such a search is cut."""
    options = {"zero": "error", "exclude": None, "query_ids": None, "doc_ids": None}
    return plan.plan(
        queries, docs, k=k, metric=metric, threads=None, engine="native", lists=True, **options
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", TYPES)
def test_every_type_gives_the_bytes_of_its_numbers_as_float64(name, metric):
    docs = rows_of(name, 701, 37)
    for n_queries in (1, 3, 8, 9, 31):
        queries = rows_of("float32", n_queries, 37, seed=n_queries)
        assert raw_plan(queries, docs, metric).raw is not None
        found = rank(queries, docs, 11, metric=metric, engine="native")
        wide = rank(queries, docs.astype(np.float64), 11, metric=metric, engine="numpy")
        assert bytes_of(found) == bytes_of(wide)


@pytest.mark.parametrize("n_queries", [1, 5, 8, 13, 15, 29])
@pytest.mark.parametrize("columns", [1, 7, 8, 15, 16, 17, 33, 64])
def test_any_number_of_queries_and_columns(n_queries, columns):
    queries, docs = rows_of("float32", n_queries, columns), rows_of("float32", 333, columns, 4)
    expected = bytes_of(rank(queries, docs, 20, engine="numpy", keep_ties=True))
    for threads in (1, 3):
        found = rank(queries, docs, 20, engine="native", keep_ties=True, threads=threads)
        assert bytes_of(found) == expected


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e12, 1e30])
def test_rows_of_other_sizes_are_measured_first(monkeypatch, metric, factor):
    measured = []
    search = searching.search_measured
    monkeypatch.setattr(
        searching, "search_measured", lambda *given: measured.append(given) or search(*given)
    )
    queries, docs = rows_of("float32", 6, 20), rows_of("float32", 300, 20, 4)
    docs[77] *= np.float32(factor)
    found = rank(queries, docs, 9, metric=metric, engine="native")
    assert len(measured) == 1
    assert bytes_of(found) == bytes_of(rank(queries, docs, 9, metric=metric, engine="numpy"))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("value", "told"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_a_number_that_cannot_be_ranked_is_named(name, value, told):
    docs = rows_of(name, 500, 24)
    docs[321, 23] = value
    with pytest.raises(ValueRangeError, match=f"docs holds {told} at row 321, column 23"):
        rank(rows_of("float32", 2, 24), docs, 3)


def test_a_row_of_zeros_is_named_last_or_dropped():
    queries, docs = rows_of("float32", 2, 24), rows_of("float32", 500, 24, 5)
    docs[123] = 0
    with pytest.raises(ValueRangeError, match="docs row 123 is all zeros"):
        rank(queries, docs, 3)
    last = rank(queries, docs, 500, zero="last", engine="native")
    assert [last.row(query)[-1][0] for query in range(2)] == [123, 123]
    assert last.zero_rows == (0, 1)
    assert len(rank(queries, docs, 500, zero="drop", engine="native").row(0)) == 499


def test_excluded_documents_are_not_found():
    queries, docs = rows_of("float32", 3, 24), rows_of("float16", 90, 24, 5)
    pairs = [(query, doc) for query in range(3) for doc in range(query, 90, 3)]
    found = rank(queries, docs, 90, exclude=pairs, engine="native")
    assert {doc % 3 for doc, _ in found.row(1)} == {0, 2}
    assert bytes_of(found) == bytes_of(rank(queries, docs, 90, exclude=pairs, engine="numpy"))


_LIMITED = """
import resource, sys
import numpy as np
from assay.search.engine import rank

queries = np.ones((int(sys.argv[2]), 256), np.float32)
queries[:, 0] = np.arange(len(queries))
rank(queries[:2], queries, 3, threads=2)  # what libraries take once
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
docs = np.load(sys.argv[1], mmap_mode=sys.argv[3] or None)
room = docs.nbytes + (int(sys.argv[4]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (taken + room,) * 2)
print(rank(queries, docs, 5, threads=2).docs.sum())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits address space")
@pytest.mark.parametrize(
    ("dtype", "mode", "n_queries", "megabytes"),
    [("float16", "r", 3, 96), ("int8", "", 40, 96), ("float16", "r", 200, 290)],
)
def test_a_narrow_corpus_is_not_copied(tmp_path: Path, dtype, mode, n_queries, megabytes):
    """As float32 it would take 307 MB more."""
    docs = np.ones((300_000, 256), dtype)
    docs[:, 1] = np.arange(300_000) % 100
    np.save(tmp_path / "docs.npy", docs)
    given = (str(tmp_path / "docs.npy"), str(n_queries), mode, str(megabytes))
    run = subprocess.run(
        [sys.executable, "-c", _LIMITED, *given], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def quantised_parts(monkeypatch) -> list[tuple]:
    """The blocks that a search quantises as they are stored."""
    always_coarse(monkeypatch)
    parts: list[tuple] = []
    make = plan.SearchPlan.stored_docs

    def noting(self, axis):
        for part in make(self, axis):
            parts.append(part)
            yield part

    monkeypatch.setattr(plan.SearchPlan, "stored_docs", noting)
    return parts


needs_8_bits = pytest.mark.skipif(
    engine_name() != "native" or not load("native").coarse_rows(), reason="needs 8-bit products"
)


@needs_8_bits
@pytest.mark.parametrize("simd", [width for width in widths() if width != "none"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", TYPES)
def test_rows_quantised_as_they_are_stored_give_the_same_bytes(name, metric, simd, monkeypatch):
    monkeypatch.setenv("ASSAY_SIMD", simd)
    docs, queries = rows_of(name, 701, 37), rows_of("float32", 40, 37, seed=9)
    wide = rank(queries, docs.astype(np.float64), 11, metric=metric, engine="numpy", keep_ties=True)
    parts = quantised_parts(monkeypatch)
    monkeypatch.setattr(plan, "COARSE_BYTES", 300 * 37)  # some panels at a time
    for threads in (1, 3):
        found = rank(queries, docs, 11, metric=metric, keep_ties=True, threads=threads)
        assert bytes_of(found) == bytes_of(wide)
    assert len(parts) == 2 * 3


@needs_8_bits
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("n_queries", "k"), [(300, 10), (1000, 1000), (5000, 100)])
def test_codes_take_the_room_that_candidates_leave(n_queries, k, threads):
    """Documents that are quantised at once have one list of candidates instead of several."""
    queries = np.ones((n_queries, 768), np.float32)
    docs = np.broadcast_to(np.float32(1), (200_000, 768))
    ready = plan.plan(queries, docs, k=k, metric="dot", zero="error", threads=threads, lists=True)
    tiles = min(threads, len(ready.tiles()) * ready.parts)
    candidates = tiles * ready.tile * 8 * plan.COARSE_ROOM
    assert ready.coarse_bytes + candidates <= plan.COARSE_BYTES + (192 << 20)
    assert ready.stored_rows * 768 <= ready.coarse_bytes
    assert ready.stored_rows > 200_000 or candidates > 64 << 20


@needs_8_bits
@pytest.mark.parametrize("name", TYPES)
def test_queries_with_too_many_candidates_are_searched_for_as_stored(name, monkeypatch):
    """Most documents are one of a few, which 8 bits cannot tell from each other."""
    docs, queries = rows_of(name, 9000, 33), rows_of("float32", 20, 33, seed=9)
    docs[:8500] = docs[:5].repeat(1700, axis=0)
    expected = rank(queries, docs, 40, engine="numpy")
    parts = quantised_parts(monkeypatch)
    assert bytes_of(rank(queries, docs, 40)) == bytes_of(expected)
    assert len(parts) == 1


@needs_8_bits
@pytest.mark.parametrize("name", TYPES)
def test_codes_of_stored_rows_are_those_of_wide_ones(name):
    docs = rows_of(name, 77, 37)
    kernels, wide = load("native"), np.ascontiguousarray(docs.astype(np.float32))
    axis, stored = axis_of(wide), stored_as(docs.dtype)
    for rows in raw_windows(docs, 1000):
        metric, sizes = Metric("l2", "error"), Sizes(0, 0)
        block = raw_docs(kernels, rows, stored, metric, sizes=sizes)
        made = kernels.coarsen_raw(block, axis, signs_of(37), 2)
        twin = load("numpy").coarsen(wide, axis, signs_of(37), 1)
        assert [part.tobytes() for part in made] == [part.tobytes() for part in twin]
        assert not block.needs_rescaling()


@needs_8_bits
@pytest.mark.parametrize("factor", [0, 1e-30, 1e30])
def test_rows_of_other_sizes_are_not_quantised_as_stored(factor, monkeypatch):
    queries, docs = rows_of("float32", 30, 40), rows_of("float32", 400, 40, 4)
    docs[77] *= np.float32(factor)
    expected = rank(queries, docs, 9, zero="last", engine="numpy")
    parts = quantised_parts(monkeypatch)
    assert bytes_of(rank(queries, docs, 9, zero="last")) == bytes_of(expected)
    assert [block.needs_rescaling() for _, block, _ in parts] == [True]
    parts.clear()
    expected = rank(queries * np.float32(1e12), docs[:70], 9, engine="numpy")
    assert bytes_of(rank(queries * np.float32(1e12), docs[:70], 9)) == bytes_of(expected)
    assert not parts


@needs_8_bits
def test_a_file_is_quantised_in_windows_large_enough_for_deep_lists(tmp_path):
    rng = np.random.default_rng(5)
    docs = np.lib.format.open_memmap(tmp_path / "d.npy", "w+", np.float32, (50_000, 384))
    docs[:] = rng.integers(-9, 10, (500, 384)).repeat(100, axis=0)
    docs[:, 0] = np.arange(50_000)
    queries = rows_of("float32", 128, 384)
    ready = raw_plan(queries, tmp_path / "d.npy", k=1000)
    assert ready.stored_axis is not None
    assert ready.stored_rows >= 1000 * plan.COARSE_SHARE
