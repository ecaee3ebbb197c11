"""The same bytes however the work is cut, on however many threads, by whichever kernel."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from assay.native import engine_name, load
from assay.search.engine import inputs, plan, rank, target_ranks
from tests.search.engine.nasty import METRICS

EXCLUDES = ("none", "pairs", "self")
CASES = list(product(METRICS, EXCLUDES, (False, True)))
FEW_CASES = [("cosine", "pairs", True), ("dot", "self", False), ("l2", "none", True)]


def crowded(seed: int, n_docs: int = 150, columns: int = 19) -> tuple[np.ndarray, np.ndarray]:
    """Queries and documents with many ties, duplicates and neighbours one bit apart."""
    rng = np.random.default_rng(seed)
    docs = rng.integers(-1, 2, (n_docs, columns)).astype(np.float32)
    docs[::3] = rng.standard_normal((5, columns))[rng.integers(0, 5, len(docs[::3]))]
    docs[::9, 4] = np.nextafter(docs[::9, 4], np.float32(np.inf))
    docs[1::3] *= rng.choice([1, 2, 3], (len(docs[1::3]), 1))
    docs[~docs.any(axis=1), 0] = 1
    queries = docs[rng.permutation(n_docs)[:45]].copy()
    queries[::4] = rng.standard_normal(queries[::4].shape)
    return queries, docs


QUERIES, DOCS = crowded(1)
QUERY_IDS = [f"d{number}" for number in range(0, 90, 2)]
DOC_IDS = [f"d{number}" for number in range(len(DOCS))]
TARGETS = (np.arange(len(QUERIES)) * 7 + 1) % len(DOCS)
PAIRS = np.stack([np.arange(400) % len(QUERIES), np.arange(400) * 13 % len(DOCS)], axis=1)
PAIRS = PAIRS[PAIRS[:, 1] != TARGETS[PAIRS[:, 0]]]  # a target cannot be excluded


def options(exclude: str) -> dict:
    """Arguments that exclude nothing, pairs of rows, or the document of the query's own id."""
    if exclude == "self":
        return {"exclude": "self", "query_ids": QUERY_IDS, "doc_ids": DOC_IDS}
    return {"exclude": PAIRS if exclude == "pairs" else None}


def ranked(docs, metric, exclude, keep_ties, *, k=9, **how):
    found = rank(QUERIES, docs, k, metric=metric, keep_ties=keep_ties, **options(exclude), **how)
    return found.offsets.tobytes(), found.docs.tobytes(), found.scores.tobytes(), found.n_docs


def counted(docs, metric, exclude, **how):
    found = target_ranks(
        QUERIES, docs, targets_for(exclude), metric=metric, **options(exclude), **how
    )
    return found.above.tobytes(), found.tied.tobytes(), found.before.tobytes(), found.n_docs


def targets_for(exclude: str):
    return [DOC_IDS[number] for number in TARGETS] if exclude == "self" else TARGETS


@pytest.fixture(scope="module")
def whole() -> dict:
    """Every case as one array, by one thread of the numpy twins."""
    lists = {case: ranked(DOCS, *case, threads=1, engine="numpy") for case in CASES}
    counts = {
        case: counted(DOCS, *case, threads=1, engine="numpy") for case in product(METRICS, EXCLUDES)
    }
    return lists | counts


def widths() -> list[str]:
    """The vector instructions that this machine can be told to use, each once."""
    try:
        native = load("native")
    except ImportError:
        return []
    rows = {}
    for name in ("avx512", "avx2", "none"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ASSAY_SIMD", name)
            rows[native.fused_rows()] = name  # a machine that has less uses what it has
    return list(rows.values())


def always_coarse(patch: pytest.MonkeyPatch) -> None:
    """Let even the smallest search go by products of 8-bit numbers first."""
    for name in ("DOCS", "COLUMNS", "QUERIES", "WORK", "SHARE"):
        patch.setattr(plan, f"COARSE_{name}", 0)
    patch.setattr(plan, "MOST_LEFT", 2.0)  # however many candidates there will be


COARSE = [f"{width} coarse" for width in widths() if width != "none"]


@pytest.fixture(params=[*widths(), *COARSE, "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine, with each width of vector instructions, by 8 bits or not; its name."""
    if request.param == "numpy":
        return "numpy"
    width, *coarse = request.param.split()
    monkeypatch.setenv("ASSAY_SIMD", width)
    if coarse:
        always_coarse(monkeypatch)
    return "native"


def blocks_of(size: int, docs: np.ndarray = DOCS) -> Iterator[np.ndarray]:
    return (docs[start : start + size] for start in range(0, len(docs), size))


def test_the_cases_are_hard(whole):
    """There are ties at the cut, ties with targets, and something to exclude."""
    for metric in METRICS:
        assert len(whole[metric, "none", True][1]) > len(whole[metric, "none", False][1])
        assert np.frombuffer(whole[metric, "none"][1], np.int64).max() > 1
        assert len({whole[metric, exclude, False][1] for exclude in EXCLUDES}) == 3


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_any_number_of_threads_gives_the_same_bytes(threads, kernels, whole):
    for case in CASES:
        assert ranked(DOCS, *case, threads=threads, engine=kernels) == whole[case], case
        assert counted(DOCS, *case[:2], threads=threads, engine=kernels) == whole[case[:2]], case


@pytest.mark.parametrize("size", [1, 7, 64, len(DOCS)])
def test_any_blocks_give_the_same_bytes(size, kernels, whole):
    threads = 1 if size < 64 else 2  # each block starts its threads
    for case in FEW_CASES[: 1 if size == 1 else None]:
        found = ranked(blocks_of(size), *case, threads=threads, engine=kernels)
        assert found == whole[case], case
        if size > 1:
            blocks = list(blocks_of(size))
            assert ranked(blocks, *case, threads=threads, engine=kernels) == whole[case], case
            found = counted(blocks, *case[:2], threads=threads, engine=kernels)
            assert found == whole[case[:2]], case


def test_files_give_the_same_bytes(kernels, whole, tmp_path):
    path = tmp_path / "docs.npy"
    np.save(path, DOCS)
    for case in FEW_CASES:
        for docs in (path, str(path), np.load(path, mmap_mode="r")):
            assert ranked(docs, *case, engine=kernels) == whole[case], case
            assert counted(docs, *case[:2], engine=kernels) == whole[case[:2]], case


@pytest.mark.parametrize("rows", [10])
def test_windows_of_a_file(rows, kernels, whole, tmp_path, monkeypatch):
    path = tmp_path / "docs.npy"
    np.save(path, DOCS)
    monkeypatch.setattr(inputs, "WINDOW_BYTES", rows * 4 * DOCS.shape[1])
    for case in FEW_CASES:
        assert ranked(path, *case, engine=kernels) == whole[case], case
        assert counted(path, *case[:2], engine=kernels) == whole[case[:2]], case


@pytest.mark.parametrize("rows", [20])
def test_windows_of_an_array(rows, kernels, whole, monkeypatch):
    monkeypatch.setattr(inputs, "MOST_ROWS", rows)
    for case in FEW_CASES:
        assert ranked(DOCS, *case, engine=kernels) == whole[case], case
        assert counted(DOCS, *case[:2], engine=kernels) == whole[case[:2]], case


@pytest.mark.parametrize(("name", "value"), [("_MOST_QUERIES", 1), ("_BYTES", 1 << 15)])
@pytest.mark.parametrize("threads", [4])
def test_tiles_of_queries(name, value, threads, kernels, whole, monkeypatch):
    monkeypatch.setattr(plan, name, value)
    monkeypatch.setattr(plan, "FEW_QUERIES", 8)
    for case in FEW_CASES:
        assert ranked(DOCS, *case, threads=threads, engine=kernels) == whole[case], case
        assert counted(DOCS, *case[:2], threads=threads, engine=kernels) == whole[case[:2]], case


def test_one_query_at_a_time(kernels, whole):
    for metric in METRICS:
        rows = [
            rank(QUERIES[q : q + 1], DOCS, 9, metric=metric, threads=1, engine=kernels)
            for q in range(len(QUERIES))
        ]
        assert b"".join(row.docs.tobytes() for row in rows) == whole[metric, "none", False][1]
        assert b"".join(row.scores.tobytes() for row in rows) == whole[metric, "none", False][2]


def merged(shards, starts, k, keep_ties):
    """Rows of (doc, score) of all shards, by the tie rule."""
    rows = []
    for q in range(len(QUERIES)):
        found = [
            (doc + start, score)
            for ranking, start in zip(shards, starts, strict=True)
            for doc, score in ranking.row(q)
        ]
        found.sort(key=lambda pair: (-pair[1], pair[0]))
        last = found[:k][-1][1]
        rows.append([pair for pair in found if pair[1] >= last] if keep_ties else found[:k])
    return rows


@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_shards_searched_apart_and_merged(metric, keep_ties, kernels, whole):
    for cuts in ([0, 1, 50, 149, 150], [0, 5, 10, 150]):
        shards = [
            rank(QUERIES, DOCS[a:b], 9, metric=metric, keep_ties=keep_ties, engine=kernels)
            for a, b in pairwise(cuts)
        ]
        rows = merged(shards, cuts[:-1], 9, keep_ties)
        flat = [pair for row in rows for pair in row]
        _, docs, scores, _ = whole[metric, "none", keep_ties]
        assert np.array([doc for doc, _ in flat], np.int32).tobytes() == docs
        assert np.array([score for _, score in flat]).tobytes() == scores


@pytest.mark.parametrize("dtype", [np.float64, np.int8])
@pytest.mark.parametrize("metric", METRICS)
def test_other_types_in_blocks_and_windows(dtype, metric, kernels, monkeypatch):
    rng = np.random.default_rng(5)
    docs = rng.integers(-3, 4, (120, 11)).astype(dtype)
    docs[~docs.any(axis=1), 0] = 1
    queries = docs[::5] + (dtype(1e-9) if dtype == np.float64 else dtype(0))
    want = rank(queries, docs, 8, metric=metric, keep_ties=True, engine="numpy", threads=1)
    monkeypatch.setattr(inputs, "WINDOW_BYTES", 16 * 4 * 11)
    for given, threads in ((docs, 1), (docs, 4), (blocks_of(7, docs), 1)):
        got = rank(
            queries, given, 8, metric=metric, keep_ties=True, engine=kernels, threads=threads
        )
        assert got.docs.tobytes() == want.docs.tobytes()
        assert got.scores.tobytes() == want.scores.tobytes()
        assert got.offsets.tobytes() == want.offsets.tobytes()


def cluster(n_equal: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equal documents among a few better and worse ones: queries, docs, and where they stand."""
    rng = np.random.default_rng(3)
    centre = rng.standard_normal(16).astype(np.float32)
    docs = np.repeat(centre[None], n_equal + 400, axis=0)
    others = rng.permutation(len(docs))[:400]
    docs[others] += rng.standard_normal((400, 16)).astype(np.float32) * np.float32(1e-4)
    docs[others[:50]] = rng.standard_normal((50, 16))
    return np.stack([centre, centre * 3, docs[others[7]], docs[others[60]]]), docs, others


@pytest.mark.parametrize(
    ("k", "metric"),
    [
        *((5, "l2"), (300, "cosine"), (5000, "dot")),
        *(pytest.param(*both, marks=pytest.mark.slow) for both in product((5, 300, 5000), METRICS)),
    ],
)
def test_a_large_cluster_of_equal_documents(metric, k, kernels):
    queries, docs, _ = cluster(10_000)
    for keep_ties in (False, True):
        want = _decided_by_all_scores(k, metric, keep_ties)
        for given, threads in ((docs, 1), (docs, 4), (blocks_of(3001, docs), 2)):
            got = rank(
                queries,
                given,
                k,
                metric=metric,
                keep_ties=keep_ties,
                threads=threads,
                engine=kernels,
            )
            assert [np.diff(got.offsets).tolist(), got.docs.tolist()] == want[:2]
            assert got.scores.tobytes() == want[2].tobytes()


@cache
def _decided_by_all_scores(k, metric, keep_ties):
    """Canonical scores of all pairs, sorted: no candidates, no floors."""
    queries, docs, _ = cluster(10_000)
    every = rank(queries, docs, len(docs), metric=metric, engine="numpy", threads=1)
    scores = np.empty((len(queries), len(docs)))
    for q, (a, b) in enumerate(zip(every.offsets, every.offsets[1:], strict=False)):
        scores[q, every.docs[a:b]] = every.scores[a:b]
    order = np.lexsort((np.broadcast_to(np.arange(len(docs)), scores.shape), -scores), axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    kept = np.broadcast_to(np.arange(len(docs)) < k, scores.shape)
    if keep_ties:
        kept = kept | (ordered == ordered[:, k - 1 : k])
    return [kept.sum(axis=1).tolist(), order[kept].tolist(), ordered[kept]]


def test_targets_within_a_large_cluster(kernels):
    queries, docs, others = cluster(10_000)
    equal = np.setdiff1d(np.arange(len(docs)), others)
    targets = np.array([equal[0], equal[4321], equal[-1], equal[77]])
    for given, threads in ((docs, 1), (docs, 4), (list(blocks_of(997, docs)), 2)):
        got = target_ranks(queries, given, targets, threads=threads, engine=kernels)
        assert got.tied.tolist() == [len(equal) - 1] * 4
        assert got.before.tolist() == [0, 4321, len(equal) - 1, 77]
        assert got.above[:2].tolist() == [0, 0]
        assert (got.above[2:] > 0).all()


def test_more_depths_than_documents(kernels, whole):
    for k, metric in product((len(DOCS), len(DOCS) + 1, 10**6, 10**15), METRICS):
        found = ranked(DOCS, metric, "none", False, k=k, engine=kernels)
        assert found == ranked(DOCS, metric, "none", True, k=len(DOCS), engine="numpy", threads=1)


_BLAS = """
import json
from tests.search.engine.test_same_bytes import blas_cores, digest
print(json.dumps([blas_cores(), digest("numpy")]))
"""


def blas_cores() -> list[str]:
    """What the BLAS libraries of this process think they run on."""
    pools = threadpool_info()
    return [pool.get("architecture", "") for pool in pools if pool["user_api"] == "blas"]


def digest(engine: str) -> str:
    """All cases, and more columns than one block of a product has, in one number."""
    queries, docs = crowded(8, 500, 333)
    sums = hashlib.sha256()
    for case in FEW_CASES:
        sums.update(repr(ranked(DOCS, *case, engine=engine)).encode())
    for metric in METRICS:
        found = rank(queries, docs, 20, metric=metric, engine=engine)
        sums.update(found.docs.tobytes() + found.scores.tobytes())
    return sums.hexdigest()


@pytest.mark.parametrize("core", ["Prescott", "Nehalem"])
def test_another_core_type_of_the_blas(core):
    environment = os.environ | {"OPENBLAS_CORETYPE": core}
    done = subprocess.run(
        [sys.executable, "-c", _BLAS],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    cores, found = json.loads(done.stdout)
    if cores == blas_cores():
        pytest.skip(f"numpy's BLAS cannot be told to run as {core}; it runs as {cores}")
    assert found == digest("numpy")
    if engine_name() == "native":
        assert found == digest("native")
