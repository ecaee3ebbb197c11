"""The Hamming kernels: every width and the twin against a plain loop over bits."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from assay.native import load

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "src" / "assay" / "native"
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = {
    NATIVE / "hamming" / "avx2.cpp": ["-mavx2"],
    NATIVE / "hamming" / "avx512.cpp": ["-mavx512f", "-mavx512bw", "-mavx512bitalg"],
}
WIDTHS = ["none", "avx2", "avx512"]
# Around the places where the kernels change their step: bytes, words, table groups and chunks.
LENGTHS = [
    1,
    2,
    7,
    8,
    9,
    12,
    16,
    17,
    63,
    64,
    65,
    251,
    252,
    253,
    255,
    256,
    257,
    504,
    505,
    1023,
    4099,
]


@pytest.fixture(params=[*(f"native-{width}" for width in WIDTHS), "numpy"])
def engine(request, monkeypatch):
    name, _, width = request.param.partition("-")
    monkeypatch.setenv("ASSAY_SIMD", width)
    try:
        return load(name)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")


def control() -> tuple:
    return np.zeros(1, np.int32), np.zeros(1, np.int64)


def nothing(n_queries: int) -> tuple:
    return np.zeros(n_queries + 1, np.int64), np.zeros(0, np.int64)


def brute(queries, docs, k, *, keep_ties=False, excluded=frozenset(), first=0):
    counts, found, distances, tie_split = [], [], [], []
    for q, query in enumerate(queries):
        far = (docs != query).sum(axis=1)
        order = [(far[d], d) for d in range(len(docs)) if (q, d + first) not in excluded]
        order.sort()
        kept = len(order) if len(order) <= k else k
        tied = [pair for pair in order[kept:] if pair[0] == order[kept - 1][0]]
        if keep_ties:
            kept += len(tied)
        counts.append(kept)
        found += [d + first for _, d in order[:kept]]
        distances += [int(distance) for distance, _ in order[:kept]]
        tie_split.append(int(bool(tied) and not keep_ties))
    return counts, found, distances, tie_split


def same(found, expected):
    assert [part.tolist() for part in found] == [list(part) for part in expected]
    assert [part.dtype.name for part in found] == ["int64", "int32", "int32", "uint8"]


@pytest.mark.parametrize("bits", LENGTHS)
def test_nearest_equal_a_loop_over_bits(engine, bits):
    rng = np.random.default_rng(bits)
    queries, docs = rng.random((11, bits)) < 0.5, rng.random((75, bits)) < 0.5
    docs[40], docs[41], docs[42] = queries[0], ~queries[0], queries[0]  # the extremes
    for k, keep_ties in ((1, False), (10, False), (10, True), (75, False), (200, True)):
        found = engine.find_nearest_codes(
            np.packbits(queries, axis=1),
            np.packbits(docs, axis=1),
            bits,
            k,
            keep_ties,
            0,
            *nothing(11),
            *control(),
        )
        same(found, brute(queries, docs, k, keep_ties=keep_ties))


@pytest.mark.parametrize("bits", [65535, 65528])
def test_the_longest_codes(engine, bits):
    rng = np.random.default_rng(bits)
    queries, docs = rng.random((3, bits)) < 0.5, rng.random((35, bits)) < 0.5
    docs[3], docs[34] = ~queries[1], queries[2]
    found = engine.find_nearest_codes(
        np.packbits(queries, axis=1),
        np.packbits(docs, axis=1),
        bits,
        35,
        False,
        0,
        *nothing(3),
        *control(),
    )
    expected = brute(queries, docs, 35)
    same(found, expected)
    assert max(expected[2]) == bits


@pytest.mark.parametrize("order", ["near-first", "far-first", "equal"])
def test_lists_are_cut_back_when_they_fill(engine, order):
    bits, n_docs, k = 16, 3000, 5
    far = np.sort(np.random.default_rng(1).integers(0, bits + 1, n_docs))
    far = {"near-first": far, "far-first": far[::-1], "equal": np.full(n_docs, 3)}[order]
    docs = np.arange(bits) < far[:, None]
    queries = np.zeros((9, bits), bool)
    for keep_ties in (False, True):
        found = engine.find_nearest_codes(
            np.packbits(queries, axis=1),
            np.packbits(docs, axis=1),
            bits,
            k,
            keep_ties,
            0,
            *nothing(9),
            *control(),
        )
        same(found, brute(queries, docs, k, keep_ties=keep_ties))


def test_excluded_docs_are_neither_found_nor_counted_as_ties(engine):
    rng = np.random.default_rng(3)
    queries, docs = rng.random((10, 6)) < 0.5, rng.random((90, 6)) < 0.5
    first = 1000
    mask = rng.random((10, 90)) < 0.3
    mask[4], mask[5] = True, False
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    places = np.argwhere(mask)
    pairs = {(int(q), int(d) + first) for q, d in places}
    for keep_ties in (False, True):
        found = engine.find_nearest_codes(
            np.packbits(queries, axis=1),
            np.packbits(docs, axis=1),
            6,
            7,
            keep_ties,
            first,
            offsets,
            places[:, 1] + first,
            *control(),
        )
        same(found, brute(queries, docs, 7, keep_ties=keep_ties, excluded=pairs, first=first))


@pytest.mark.parametrize("bits", [1, 5, 64, 256, 300])
def test_histograms_count_every_pair(engine, bits):
    rng = np.random.default_rng(bits)
    queries, docs = rng.random((13, bits)) < 0.5, rng.random((101, bits)) < 0.5
    counts = np.full((13, bits + 1), 7, np.int64)
    stop, done = control()
    engine.count_code_distances(
        np.packbits(queries, axis=1), np.packbits(docs, axis=1), bits, counts, stop, done
    )
    distances = (queries[:, None] != docs).sum(axis=2)
    expected = [np.bincount(row, minlength=bits + 1) + 7 for row in distances]
    assert counts.tolist() == np.array(expected).tolist()
    assert done[0] == 13 * 101


def test_bits_are_counted_without_numpy_2(monkeypatch):
    rng = np.random.default_rng(5)
    queries, docs = rng.random((4, 99)) < 0.5, rng.random((30, 99)) < 0.5
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    found = load("numpy").find_nearest_codes(
        np.packbits(queries, axis=1),
        np.packbits(docs, axis=1),
        99,
        6,
        False,
        0,
        *nothing(4),
        *control(),
    )
    same(found, brute(queries, docs, 6))


def test_a_wish_to_stop_is_heard(engine):
    rows = np.zeros((100, 4), np.uint8)
    stop, done = np.ones(1, np.int32), np.zeros(1, np.int64)
    engine.find_nearest_codes(rows, rows, 32, 3, False, 0, *nothing(100), stop, done)
    engine.count_code_distances(rows, rows, 32, np.zeros((100, 33), np.int64), stop, done)
    assert done[0] == 0


def test_progress_counts_pairs(engine):
    rows = np.zeros((70, 4), np.uint8)
    stop, done = control()
    engine.find_nearest_codes(rows, rows, 32, 3, False, 0, *nothing(70), stop, done)
    assert done[0] == 70 * 70


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 0}, "bits must lie from 1 to 65535"),
        ({"bits": 65536}, "bits must lie from 1 to 65535"),
        ({"bits": 33}, "rows must hold"),
        ({"k": 0}, "k must be at least 1"),
        ({"first_doc": 2**31 - 3}, "doc number out of range"),
        ({"first_doc": -1}, "doc number out of range"),
        ({"excluded_offsets": np.zeros(3, np.int64)}, "one row for each query"),
        ({"excluded_offsets": np.array([0, 0, 2, 1, 1])}, "must not fall"),
        ({"excluded_offsets": np.array([0, 0, 0, 0, 9])}, "must end at"),
    ],
)
def test_arguments_that_would_reach_beyond_memory(engine, change, message):
    rows = np.zeros((4, 4), np.uint8)
    arguments = {
        "queries": rows,
        "docs": rows,
        "bits": 32,
        "k": 2,
        "keep_ties": False,
        "first_doc": 0,
        "excluded_offsets": np.zeros(5, np.int64),
        "excluded_docs": np.zeros(0, np.int64),
        "stop": np.zeros(1, np.int32),
        "done": np.zeros(1, np.int64),
    }
    if change.get("excluded_offsets") is not None:
        arguments["excluded_docs"] = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match=message):
        engine.find_nearest_codes(**{**arguments, **change})


def test_a_histogram_of_the_wrong_shape_is_refused(engine):
    rows = np.zeros((4, 4), np.uint8)
    with pytest.raises(ValueError, match="counts must be"):
        engine.count_code_distances(rows, rows, 32, np.zeros((4, 32), np.int64), *control())


@pytest.mark.slow
def test_no_width_reads_beyond_its_rows(tmp_path):
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    vectors = FLAGS if platform.machine() in ("x86_64", "AMD64") else {}
    flags = ["-std=c++17", "-O1", "-g", *SANITIZERS, "-I", NATIVE]
    flags += ["-DASSAY_X86_KERNELS"] if vectors else []
    objects = []
    search = [NATIVE / "hamming" / "search.cpp", NATIVE / "hamming" / "plain.cpp"]
    plain = [HERE / "hamming_driver.cpp", *search]
    for source in [*plain, *vectors]:
        objects.append(tmp_path / f"{source.stem}.o")
        instructions = vectors.get(source, [])
        subprocess.run(
            [compiler, *flags, *instructions, "-c", source, "-o", objects[-1]], check=True
        )
    driver = tmp_path / "driver"
    subprocess.run([compiler, *flags, *objects, "-o", driver], check=True)
    for width in WIDTHS:
        environment = {**os.environ, "ASSAY_SIMD": width}
        done = subprocess.run(
            [driver], capture_output=True, text=True, check=False, env=environment
        )
        assert (done.stdout, done.stderr) == ("ok\n", "")
