"""Ranks of targets in a score matrix, of every type and layout, against a sort."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from assay import evaluate, score
from assay.core.conventions import preset
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.search.engine import target_ranks_from_scores
from assay.search.engine import targets as target_module
from assay.search.engine.targets import ranks_and_best

RNG = np.random.default_rng(7)
SCORES = RNG.integers(-20, 20, (40, 90)).astype(np.float64)
TARGETS = RNG.integers(0, 90, 40)


def sorted_ranks(scores, targets):
    order = np.argsort(-scores, axis=1, kind="stable")
    return (order == targets[:, None]).argmax(axis=1) + 1


@pytest.fixture(params=["native", "numpy"])
def engine(request):
    return request.param


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", ">f4", ">f8", "i1", "i2", "i4", "i8", ">i2", "bfloat16"]
)
def test_every_type_gives_the_rank_of_a_stable_sort(engine, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    ranks = target_ranks_from_scores(SCORES.astype(dtype), TARGETS, engine=engine)
    assert ranks.rank.tolist() == sorted_ranks(SCORES, TARGETS).tolist()


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_unsigned_scores(engine, dtype):
    ranks = target_ranks_from_scores((SCORES + 20).astype(dtype), TARGETS, engine=engine)
    assert ranks.rank.tolist() == sorted_ranks(SCORES, TARGETS).tolist()


def layouts():
    wide = np.repeat(SCORES, 2, axis=1)
    tall = np.repeat(SCORES, 3, axis=0)
    padded = np.zeros((40, 95))
    padded[:, 2:92] = SCORES
    packed = np.zeros(40 * 90 * 8 + 1, np.uint8)
    shifted = packed[1:].view(np.float64).reshape(40, 90)
    shifted[:] = SCORES
    return {
        "Fortran": np.asfortranarray(SCORES),
        "columns with a stride": wide[:, ::2],
        "rows with a stride": tall[::3],
        "reversed rows": SCORES[::-1].copy()[::-1],
        "reversed columns": SCORES[:, ::-1].copy()[:, ::-1],
        "a window": padded[:, 2:92],
        "unaligned": shifted,
    }


@pytest.mark.parametrize("layout", layouts())
def test_layout_changes_nothing(engine, layout):
    scores = layouts()[layout]
    plain, other = (target_ranks_from_scores(s, TARGETS, engine=engine) for s in (SCORES, scores))
    for name in ("above", "tied", "before"):
        assert getattr(plain, name).tolist() == getattr(other, name).tolist()


def test_one_row_broadcast_to_many(engine):
    scores = np.broadcast_to(SCORES[0], (4, 90))
    ranks = target_ranks_from_scores(scores, np.arange(4), engine=engine)
    assert ranks.rank.tolist() == sorted_ranks(np.array(scores), np.arange(4)).tolist()


@pytest.mark.parametrize("block", [1, 7, 64, 10**6])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_blocks_and_threads_change_nothing(engine, monkeypatch, block, threads):
    expected, best = ranks_and_best(SCORES, TARGETS, engine="numpy", threads=1)
    monkeypatch.setattr(target_module, "BLOCK_BYTES", block * 90 * 8)
    monkeypatch.setattr(target_module, "WORTH_THREADS", 0)
    found, found_best = ranks_and_best(SCORES, TARGETS, engine=engine, threads=threads)
    assert found_best.tolist() == best.tolist() == SCORES.argmax(axis=1).tolist()
    for name in ("above", "tied", "before"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_hits_feed_every_measure_like_a_sorted_list():
    ids = [f"q{n:02}" for n in range(40)]
    hits = target_ranks_from_scores(SCORES, TARGETS).hits(ids)
    ranking = Ranking.from_scores(SCORES, query_ids=ids)
    judgments = Judgments.from_targets(TARGETS, query_ids=ids, n_docs=90)
    for ties in ("order", "expected", "best", "worst"):
        rules = {"conventions": preset("trec_eval").replace(ties=ties, tiebreak=ranking.tiebreak)}
        names = ["RR", "nDCG@10", "Success@5", "AP"]
        ours = score(hits, names, **rules).mean()
        theirs = evaluate(ranking, judgments, names, **rules).mean()
        assert dict(ours) == pytest.approx(dict(theirs), abs=1e-15)


def test_rows_without_a_target_are_empty_queries():
    masked = np.ma.masked_array([1, 0, 2], mask=[False, True, False])
    for targets in ([1, -1, 2], masked):
        ranks = target_ranks_from_scores(SCORES[:3], targets)
        assert ranks.above[1] == ranks.tied[1] == ranks.before[1] == -1
        assert ranks.has_target.tolist() == [True, False, True]
        assert score(ranks.hits(), "RR").mean().counts["RR"].empty == 1


def test_scores_that_differ_in_the_last_digit_stay_distinct():
    base = 2**53
    assert target_ranks_from_scores([[base - 1, base]], [0]).above.tolist() == [1]
    with pytest.raises(ValueRangeError, match="2\\^53"):
        target_ranks_from_scores(np.array([[base + 1, base]]), [0])


def test_progress_comes_from_the_calling_thread(monkeypatch):
    monkeypatch.setattr(target_module, "BLOCK_BYTES", 1)
    seen = []
    target_ranks_from_scores(
        SCORES, TARGETS, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (40, 40)
    assert seen == sorted(seen)


@pytest.mark.slow
def test_a_memory_map_larger_than_the_limit_of_memory(tmp_path):
    """A sparse file of 1.2 GB is ranked within 256 MB beyond the map."""
    program = """
import resource, sys
import numpy as np
from assay.search.engine import target_ranks_from_scores
from assay.search.engine import targets as target_module
scores = np.memmap(sys.argv[1], np.float16, "w+", shape=(600, 1_000_000))
scores[599, 5] = 1
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20),) * 2)
ranks = target_ranks_from_scores(scores, np.full(600, 9), threads=2)
print(ranks.rank[0], ranks.rank[599], ranks.tied[3])
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "scores"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("10 10 999999\n", "")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_target_that_was_masked_out_ranks_last_with_the_other_masked_ones(engine, dtype):
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 3, (400, 9)).astype(dtype)
    scores[rng.random(scores.shape) < rng.random((400, 1))] = -np.inf
    targets = rng.integers(-1, 9, 400)
    ranks, best = ranks_and_best(scores, targets, engine=engine)
    for row, (line, target) in enumerate(zip(scores.tolist(), targets.tolist(), strict=True)):
        order = sorted(range(9), key=lambda column: (-line[column], column))
        assert best[row] == order[0]
        assert ranks.rank[row] == (order.index(target) + 1 if target >= 0 else 0)
        if target >= 0:
            assert ranks.tied[row] == line.count(line[target]) - 1
    assert (scores[np.arange(400), np.maximum(targets, 0)] == -np.inf)[targets >= 0].sum() > 99


@pytest.mark.parametrize(
    ("scores", "targets", "error", "words"),
    [
        ([[1.0, np.nan]], [0], ValueRangeError, "nan at row 0, column 1"),
        ([[1.0, 2.0], [np.inf, 2.0]], [0, 0], ValueRangeError, "inf at row 1, column 0"),
        ([1.0, 2.0], [0, 0], ShapeError, "two dimensions"),
        (np.zeros((0, 3)), [], ShapeError, "two dimensions"),
        (np.zeros((2, 3)), [0], MismatchError, "2 rows, targets 1"),
        (np.zeros((2, 3)), [0, 3], ValueRangeError, "row 1 is 3; columns are 0 to 2"),
        (np.zeros((2, 3)), [-2, 0], ValueRangeError, "row 0 is -2"),
        (np.zeros((2, 3)), [0.0, 1.0], ShapeError, "of float64"),
        (np.zeros((2, 3)), [[0], [1]], ShapeError, "shape \\(2, 1\\)"),
        (np.zeros((2, 3), complex), [0, 0], ValueRangeError, "complex"),
        (np.zeros((2, 3), object), [0, 0], ShapeError, "object"),
        (np.zeros((2, 3), np.longdouble), [0, 0], ValueRangeError, "Pass float64 or narrower"),
        ([[True, False]], [0], ValueRangeError, "bool"),
    ],
)
def test_bad_input_is_named(scores, targets, error, words):
    with pytest.raises(error, match=words):
        target_ranks_from_scores(scores, np.asarray(targets, None if targets else int))


@pytest.mark.parametrize("options", [{"engine": "gpu"}, {"threads": 0}, {"threads": 1.5}])
def test_bad_options_are_named(options):
    with pytest.raises(UsageError):
        target_ranks_from_scores(SCORES, TARGETS, **options)


def test_the_first_bad_cell_is_named_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(target_module, "BLOCK_BYTES", 1)
    monkeypatch.setattr(target_module, "WORTH_THREADS", 0)
    scores = SCORES.copy()
    scores[[12, 13, 39], [5, 1, 0]] = np.nan
    for threads in (1, 2, 4):
        with pytest.raises(ValueRangeError, match="row 12, column 5"):
            target_ranks_from_scores(scores, TARGETS, threads=threads)
