"""Codes, packing, and search among codes."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from assay import Judgments, evaluate
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.native import engine_name
from assay.search.engine import (
    Codes,
    codes,
    distance_histogram,
    pack_codes,
    rank_codes,
)


def some_codes(rows: int, bits: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, bits)) < 0.5


def bytes_of(ranking) -> tuple:
    tie_split = None if ranking.tie_split is None else ranking.tie_split.tobytes()
    return (
        ranking.offsets.tobytes(),
        ranking.docs.tobytes(),
        ranking.scores.tobytes(),
        tie_split,
        ranking.docs.dtype,
        ranking.scores.dtype,
    )


# Packing


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float16, np.float64])
def test_all_ways_to_write_bits_pack_alike(dtype):
    bits = some_codes(50, 21)
    packed = pack_codes(bits.astype(dtype))
    assert packed.packed.tobytes() == np.packbits(bits, axis=1).tobytes()
    assert (packed.bits, len(packed)) == (21, 50)
    if dtype not in (bool, np.uint8):
        signs = np.where(bits, 1, -1).astype(dtype)
        assert pack_codes(signs).packed.tobytes() == packed.packed.tobytes()


def test_bfloat16_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    signs = np.where(some_codes(5, 9), 1, -1)
    packed = pack_codes(signs.astype(ml_dtypes.bfloat16))
    assert packed.packed.tobytes() == pack_codes(signs).packed.tobytes()


def test_blocks_of_rows_change_nothing(monkeypatch):
    bits = some_codes(100, 13)
    whole = pack_codes(bits.astype(int)).packed.tobytes()
    monkeypatch.setattr(codes, "BLOCK_CELLS", 40)
    assert pack_codes(bits.astype(int)).packed.tobytes() == whole
    late = np.ones((100, 13), int)
    late[1, 2], late[97, 4] = -1, 0
    with pytest.raises(ValueRangeError, match=r"holds 0 in row 97, column 4, but -1"):
        pack_codes(late)


def test_constant_codes_are_fine():
    for value in (0, 1, -1):
        assert pack_codes(np.full((3, 9), value)).packed.any() == (value > 0)


def test_inputs_stay_as_they_were():
    bits = some_codes(4, 9).astype(np.float32)
    before = bits.copy()
    pack_codes(bits)
    packed = np.packbits(bits.astype(bool), axis=1)
    kept = Codes(packed, 9)
    assert (bits == before).all()
    assert packed.flags.writeable
    assert not kept.packed.flags.writeable


@pytest.mark.parametrize("shape", [(3,), (0, 2), (3, 3), (1, 1, 2)])
def test_packed_rows_of_the_wrong_shape(shape):
    with pytest.raises(ShapeError, match=r"\(rows, 2\)"):
        Codes(np.zeros(shape, np.uint8), 12)


@pytest.mark.parametrize("bits", [0, -1, 2.5, True, None, 65536])
def test_lengths_that_make_no_sense(bits):
    with pytest.raises(UsageError):
        Codes(np.zeros((1, 1), np.uint8), bits)


def test_only_bytes_are_packed():
    with pytest.raises(ValueRangeError, match="int64"):
        Codes(np.zeros((1, 1), np.int64), 8)


# Ranking


@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize("bits", [3, 64, 256])
def test_equal_to_sorting_all_distances(bits, keep_ties):
    queries, docs = some_codes(30, bits, 1), some_codes(500, bits, 2)
    ranking = rank_codes(queries, docs, 40, keep_ties=keep_ties)
    distances = (queries[:, None] != docs).sum(axis=2)
    for q, row in enumerate(distances):
        order = np.lexsort((np.arange(500), row))
        count = np.count_nonzero(row <= row[order[39]]) if keep_ties else 40
        expected = [(int(d), -float(row[d])) for d in order[:count]]
        assert ranking.row(q) == expected
        if not keep_ties:
            assert ranking.tie_split[q] == (row[order[39]] == row[order[40]])


@pytest.mark.parametrize("keep_ties", [False, True])
def test_the_same_bytes_however_it_is_cut(monkeypatch, keep_ties):
    queries, docs = some_codes(70, 10, 1), some_codes(300, 10, 2)
    pairs = [(q, (7 * q) % 300) for q in range(70)]
    found = set()
    for most, fewest, share in product((1, 7, 64, 1024), (0, 64), (1, 100)):
        monkeypatch.setattr(codes, "MOST_QUERIES", most)
        monkeypatch.setattr(codes, "FEWEST_QUERIES", fewest)
        monkeypatch.setattr(codes, "FEWEST_DOCS", share)
        for threads in (1, 2, 4):
            ranking = rank_codes(
                queries, docs, 20, exclude=pairs, keep_ties=keep_ties, threads=threads
            )
            found.add(bytes_of(ranking))
    found.add(
        bytes_of(rank_codes(queries, docs, 20, exclude=pairs, keep_ties=keep_ties, engine="numpy"))
    )
    assert len(found) == 1


def test_kinds_of_input_give_the_same_bytes(tmp_path):
    queries, docs = some_codes(9, 20, 1), some_codes(60, 20, 2)
    expected = bytes_of(rank_codes(queries, docs, 5))
    np.save(tmp_path / "docs.npy", np.packbits(docs, axis=1))
    mapped = np.load(tmp_path / "docs.npy", mmap_mode="r")
    strided = np.zeros((60, 40), np.int8)
    strided[:, ::2] = docs
    for other in (
        np.asfortranarray(docs),
        strided[:, ::2],
        docs.astype(">i4"),
        docs.astype(np.float64),
        np.where(docs, 1, -1),
        pack_codes(docs),
        Codes(mapped, 20),
        Codes(np.asfortranarray(np.packbits(docs, axis=1)), 20),
    ):
        assert bytes_of(rank_codes(queries, other, 5)) == expected


def test_ids_name_rows_and_exclude_themselves():
    bits = np.array([[1, 1], [1, 1], [0, 0]])
    ranking = rank_codes(
        bits[:2], bits, 2, exclude="self", query_ids=["b", "x"], doc_ids=["a", "b", "c"]
    )
    assert ranking.row("b") == [("a", 0.0), ("c", -2.0)]
    assert ranking.row("x") == [("a", 0.0), ("b", 0.0)]
    by_row = rank_codes(bits, bits, 3, exclude="self")
    assert [[d for d, _ in by_row.row(q)] for q in range(3)] == [[1, 2], [0, 2], [0, 1]]


def test_excluded_pairs_by_id():
    bits = np.array([[1, 1], [1, 1], [0, 0]])
    ranking = rank_codes(
        bits,
        bits,
        3,
        exclude=[("q0", "d0"), ("q0", "d0"), ("q0", "d2")],
        query_ids=["q0", "q1", "q2"],
        doc_ids=["d0", "d1", "d2"],
    )
    assert ranking.row("q0") == [("d1", 0.0)]
    assert ranking.lengths.tolist() == [1, 3, 3]


def test_scores_hold_no_minus_zero():
    scores = rank_codes([[1]], [[1]], 1).scores
    assert scores.tobytes() == np.zeros(1).tobytes()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_histogram_says_how_many_tie(engine, threads):
    queries, docs = some_codes(40, 12, 1), some_codes(900, 12, 2)
    try:
        counts = distance_histogram(queries, docs, threads=threads, engine=engine)
    except UsageError:
        pytest.skip("assay.native._kernels is not built")
    assert counts.dtype == np.int64
    assert counts.sum(axis=1).tolist() == [900] * 40
    kept = rank_codes(queries, docs, 50, keep_ties=True)
    for q in range(40):
        last = int(-kept.row(q)[-1][1])
        assert counts[q, : last + 1].sum() == kept.lengths[q]


def test_progress_ends_at_the_total():
    seen = []
    rank_codes(some_codes(9, 8), some_codes(50, 8), 3, progress=lambda *step: seen.append(step))
    assert seen[-1] == (450, 450)


def test_an_interrupt_ends_the_search():
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rank_codes(some_codes(200, 8), some_codes(5000, 8), 3, progress=interrupt)


def test_lengths_that_differ_are_both_named():
    with pytest.raises(MismatchError, match="9 bits and docs have 8"):
        rank_codes(some_codes(2, 9), some_codes(2, 8), 1)


def test_unknown_engines_and_exclusions():
    bits = some_codes(2, 8)
    with pytest.raises(UsageError, match="engine"):
        rank_codes(bits, bits, 1, engine="gpu")
    with pytest.raises(UsageError, match="exclude"):
        rank_codes(bits, bits, 1, exclude="others")
    with pytest.raises(MismatchError, match="2 queries and 3 documents"):
        rank_codes(bits, some_codes(3, 8), 1, exclude="self")
    with pytest.raises(MismatchError, match="query_ids has 3"):
        rank_codes(bits, bits, 1, query_ids=["a", "b", "c"])


def test_a_cut_through_ties_is_seen_by_the_evaluation():
    docs = np.zeros((20, 8), int)
    ranking = rank_codes(docs[:1], docs, 5)
    scores = evaluate(ranking, Judgments.from_labels([1], [1] + [0] * 19), "RR")
    assert scores.tied.all()


INTERRUPTED = """
import os, signal, sys
import numpy as np
from assay.search.engine import Codes, rank_codes
codes = Codes(np.lib.format.open_memmap(sys.argv[1], mode="r"), 512)
def interrupt(done, total):
    if done:
        os.kill(os.getpid(), signal.SIGINT)
try:
    rank_codes(codes, codes, 10, engine=sys.argv[2], threads=2, progress=interrupt)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def large_file(tmp_path):
    """Half a gigabyte of zeros that takes no room on the disk."""
    path = tmp_path / "docs.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(1 << 23, 64))
    return str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_ctrl_c_ends_a_search_that_would_take_hours(large_file, engine):
    if engine == "native" and engine_name() != "native":
        pytest.skip("assay.native._kernels is not built")
    command = [sys.executable, "-c", INTERRUPTED, large_file, engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


MEMORY = """
import resource, sys
import numpy as np
from assay.search.engine import Codes, rank_codes
docs = np.lib.format.open_memmap(sys.argv[1], mode="r")
queries = Codes(np.random.default_rng(0).integers(0, 256, (80, 64), np.uint8), 512)
rank_codes(queries, Codes(docs[:1000], 512), 5, threads=2)  # now everything is loaded
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(len(rank_codes(queries, Codes(docs, 512), 100, threads=2).docs))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_stays_bounded(large_file):
    command = [sys.executable, "-c", MEMORY, large_file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("8000\n", "")


def test_signs_of_real_vectors(data_dir):
    vectors = np.load(data_dir("scifact") / "minilm.npz")
    queries, docs = vectors["queries"] > 0, vectors["docs"] > 0
    found = rank_codes(queries, docs, 50, keep_ties=True)
    far = queries.sum(1)[:, None] + docs.sum(1) - 2 * (queries.astype(float) @ docs.T.astype(float))
    for q, row in enumerate(far):
        order = np.lexsort((np.arange(len(row)), row))
        order = order[: np.count_nonzero(row <= row[order[49]])]
        inside = slice(found.offsets[q], found.offsets[q + 1])
        assert found.docs[inside].tolist() == order.tolist()
        assert found.scores[inside].tolist() == (-row[order]).tolist()
