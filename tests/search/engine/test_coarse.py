"""Documents in 8 bits: bounds that hold in rational arithmetic, and the same answers as without."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from assay.native import load
from assay.search.engine import plan, prepare, rank, target_ranks
from assay.search.engine.blocks import Coarse, Docs, axis_of, coarsen, signs_of
from tests.search.engine.nasty import METRICS
from tests.search.engine.test_same_bytes import always_coarse, widths

STEP, PANEL = 4, 32


def rows_of_all_kinds(columns: int, seed: int = 0) -> np.ndarray:
    """Plain rows, one number among zeros, equal numbers, wide ranges, whole numbers, zeros."""
    rng = np.random.default_rng([seed, columns])
    rows = rng.standard_normal((40, columns))
    rows[0] = 0
    rows[1] = np.eye(1, columns)
    rows[2] = 1
    rows[3:8] *= 10.0 ** rng.integers(-12, 13, (5, columns))
    rows[8:12] = np.rint(3 * rows[8:12])
    rows[12:16] *= 2.0 ** rng.integers(-99, 100, (4, 1))
    rows[16] = np.where(np.arange(columns) % 2, 1e-20, 1e15)
    return rows.astype(np.float32)


def unpacked(coarse: Coarse, n_rows: int) -> np.ndarray:
    """Codes, a row for each document."""
    panels = coarse.codes.reshape(-(-n_rows // PANEL), -1, PANEL, STEP).swapaxes(1, 2)
    return panels.reshape(-1, panels.shape[2] * STEP)[:n_rows].astype(int) - 128


def rotated(row: np.ndarray) -> list[Fraction]:
    """The rotation in rational arithmetic: signs, then Hadamard matrices by their definition."""
    values = [Fraction(float(x)) * int(s) for x, s in zip(row, signs_of(len(row)), strict=True)]
    values += [Fraction(0)] * (-len(values) % STEP)
    turned: list[Fraction] = []
    for side, tall in ((8, 8), (4, 4), (4, 1)):
        size = side * tall
        while len(values) - len(turned) >= size:
            block = values[len(turned) : len(turned) + size]
            signs = [
                [(-1) ** bin(i & j).count("1") for j in range(size)] for i in range(size)
            ]  # of coordinates side × tall; the result stands turned over
            found = [sum(s * x for s, x in zip(line, block, strict=True)) for line in signs]
            square = np.array(found, object).reshape(side, tall).T
            turned += [x / int(size**0.5) for x in square.ravel()]
    return turned


def no_axis(columns: int) -> np.ndarray:
    return np.zeros(columns, np.float32)


def an_axis(columns: int) -> np.ndarray:
    """The direction of a row; others lie across it, or along it, or anyhow."""
    return axis_of(rows_of_all_kinds(columns)[20:21])


def rest_of(rows: np.ndarray, coarse: Coarse) -> np.ndarray:
    """Rows without what was taken off, as float32 rounds it."""
    return rows - coarse.lean[:, None] * coarse.axis


@cache
def turned_rows(columns: int) -> list[tuple[list[Fraction], Fraction]]:
    """The rotated rows of all kinds, and the squares of their lengths, which stay as they are."""
    rows = rows_of_all_kinds(columns)
    found = [(rotated(row), squares([exact(x) for x in row])) for row in rows]
    assert all(squares(turned) == square for turned, square in found)
    return found


def squares(values: list[Fraction]) -> Fraction:
    return sum((x * x for x in values), Fraction(0))


def exact(value: np.float32) -> Fraction:
    return Fraction(float(value))


@pytest.fixture(params=[*widths(), "numpy"])
def quantiser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        return "numpy"
    monkeypatch.setenv("ASSAY_SIMD", request.param)
    return "native"


@pytest.mark.parametrize("columns", [1, 3, 8, 17, 64, 100])
def test_what_is_left_over_is_never_more_than_stated(columns, quantiser):
    rows = rows_of_all_kinds(columns)
    coarse = coarsen(load(quantiser), rows, no_axis(columns), 1)
    assert not coarse.lean.any()
    for (turned, square), codes, step, residual, norm in zip(
        turned_rows(columns), unpacked(coarse, len(rows)), *coarse[1:4], strict=True
    ):
        left = [x - exact(step) * int(code) for x, code in zip(turned, codes, strict=True)]
        assert squares(left) <= exact(residual) ** 2
        assert square <= exact(norm) ** 2


@pytest.mark.parametrize("columns", [5, 64])
def test_no_product_is_off_by_more_than_the_bound(columns, quantiser):
    rows = rows_of_all_kinds(columns)
    coarse = coarsen(load(quantiser), rows, no_axis(columns), 1)
    codes = unpacked(coarse, len(rows))
    steps, residuals, norms = ([exact(x) for x in part] for part in coarse[1:4])
    for q, d in product(range(0, 40, 3), range(0, 40, 2)):
        true = sum(exact(x) * exact(y) for x, y in zip(rows[q], rows[d], strict=True))
        found = steps[q] * steps[d] * int(codes[q] @ codes[d])
        bound = residuals[q] * norms[d] + (norms[q] + residuals[q]) * residuals[d]
        assert abs(true - found) <= bound


@pytest.mark.parametrize("columns", [3, 17, 64])
def test_what_is_left_over_beside_an_axis_is_never_more_than_stated(columns, quantiser):
    rows = rows_of_all_kinds(columns)
    coarse = coarsen(load(quantiser), rows, an_axis(columns), 1)
    codes = unpacked(coarse, len(rows))
    rest = rest_of(rows, coarse)
    for at in range(0, 40, 3):
        turned, step = rotated(rest[at]), exact(coarse.step[at])
        left = [x - step * int(code) for x, code in zip(turned, codes[at], strict=True)]
        assert squares(left) <= exact(coarse.residual[at]) ** 2
        assert squares(turned) <= exact(coarse.norm[at]) ** 2


@pytest.mark.parametrize("columns", [5, 64])
def test_no_product_beside_an_axis_is_off_by_more_than_the_bound(columns, quantiser):
    """As docs/exactness.md states it: the bound of what is left, and a share of the lengths."""
    rows = rows_of_all_kinds(columns)
    coarse = coarsen(load(quantiser), rows, an_axis(columns), 1)
    assert np.abs(coarse.lean).max() > 0
    codes = unpacked(coarse, len(rows))
    steps, residuals, norms, leans = ([exact(x) for x in part] for part in coarse[1:5])
    share = Fraction(columns, 4) + 64
    for q, d in product(range(0, 40, 3), range(0, 40, 2)):
        true = sum(exact(x) * exact(y) for x, y in zip(rows[q], rows[d], strict=True))
        found = steps[q] * steps[d] * int(codes[q] @ codes[d]) + leans[q] * leans[d]
        bound = residuals[q] * norms[d] + (norms[q] + residuals[q]) * residuals[d]
        lengths = (abs(leans[q]) + norms[q]) * (abs(leans[d]) + norms[d])
        assert abs(true - found) <= bound + share * lengths / 2**24


@pytest.mark.parametrize("columns", [1, 7, 300])
def test_an_axis_is_of_length_1_or_0(columns):
    rng = np.random.default_rng(3)
    docs = rng.standard_normal((900, columns), dtype=np.float32)
    for rows in (docs + 2, docs, (docs * 1e30).astype(np.float32), np.zeros_like(docs)):
        square = np.square(axis_of(rows).astype(np.float64)).sum()
        assert square == 0 or abs(square - 1) < 2.0**-22
    assert np.square(axis_of(docs + 2)).sum() > 0.9
    assert not axis_of(rng.standard_normal((900, 300))).any()


def test_an_axis_of_another_length_is_refused():
    rows = rows_of_all_kinds(8)
    with pytest.raises(ValueError, match="length 1"):
        coarsen(load("native"), rows, np.full(8, 0.5, np.float32), 1)


@pytest.mark.parametrize("columns", [1, 31, 64, 130])
def test_codes_keep_the_limits_of_16_bits(columns, quantiser):
    codes = unpacked(coarsen(load(quantiser), rows_of_all_kinds(columns), no_axis(columns), 1), 40)
    assert np.abs(codes).max() <= 127
    padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 32)))
    lanes = padded.reshape(40, -1, 8, 2, 2)  # row, block, step, pair, column
    assert (lanes.astype(float) ** 2).sum(axis=(2, 4)).max() <= 205**2


@pytest.mark.parametrize("columns", [1, 7, 64, 100, 384])
def test_engines_quantise_to_the_same_bytes(columns, quantiser):
    rows = rows_of_all_kinds(columns)
    for threads, axis in product((1, 3), (no_axis(columns), an_axis(columns))):
        ours = coarsen(load(quantiser), rows, axis, threads)
        for one, other in zip(ours, coarsen(load("numpy"), rows, axis, 1), strict=True):
            assert one.tobytes() == other.tobytes()


# Searches: enough chunks that floors are guessed ---------------------------------------------

COLUMNS, N_DOCS = 516, 17_000  # 34 chunks: a guess after each stage of a scan


def plain(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((N_DOCS, COLUMNS), dtype=np.float32)


def front_loaded(rng: np.random.Generator) -> np.ndarray:
    """The best documents of every query come first: guesses from the first chunk are too high."""
    docs = plain(rng)
    docs[:600] += 4
    return docs


def ascending(rng: np.random.Generator) -> np.ndarray:
    docs = plain(rng)
    return docs[np.argsort(docs.sum(axis=1))]


def clustered(rng: np.random.Generator) -> np.ndarray:
    """Thousands of neighbours that 8 bits cannot tell apart."""
    centres = rng.standard_normal((5, COLUMNS))[rng.integers(0, 5, N_DOCS)]
    return (centres + 1e-3 * plain(rng)).astype(np.float32)


def in_a_cone(rng: np.random.Generator) -> np.ndarray:
    """All point nearly the same way, and some exactly so."""
    docs = 20 * rng.standard_normal(COLUMNS, dtype=np.float32) + plain(rng)
    docs[::50] = np.rint(docs[0]) * rng.integers(1, 5, (len(docs[::50]), 1))
    return docs


def copied(rng: np.random.Generator) -> np.ndarray:
    return plain(rng)[rng.integers(0, 30, N_DOCS)]


def of_all_lengths(rng: np.random.Generator) -> np.ndarray:
    return plain(rng) * np.exp(2 * rng.standard_normal((N_DOCS, 1))).astype(np.float32)


def spiked(rng: np.random.Generator) -> np.ndarray:
    """A few columns that dominate, and rows that are nearly empty."""
    docs = plain(rng) * np.exp(2 * rng.standard_normal(COLUMNS)).astype(np.float32)
    docs[::5] *= rng.random(docs[::5].shape) < 0.02
    docs[~docs.any(axis=1), 0] = 1
    return docs


SETS = (plain, front_loaded, ascending, clustered, in_a_cone, copied, of_all_lengths, spiked)
# Guesses too high, too many survivors, an axis, a wide range of lengths.
FEW = (front_loaded, clustered, in_a_cone, of_all_lengths)


def by_default(*few):
    """All sets; only these run by default."""
    marked = [pytest.param(one, marks=[pytest.mark.slow] * (one not in few)) for one in SETS]
    return pytest.mark.parametrize("make", marked, ids=lambda make: make.__name__)


@pytest.fixture(params=[width for width in widths() if width != "none"])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ASSAY_SIMD", request.param)
    if not load("native").coarse_rows():
        pytest.skip("no product of 8-bit numbers on this machine")
    return request.param


def searched(queries, docs, k, **how):
    found = rank(queries, docs, k, engine="native", **how)
    return found.offsets.tobytes(), found.docs.tobytes(), found.scores.tobytes()


_PAIRS = np.stack([np.arange(4000) % 40, np.arange(4000) * 3 % N_DOCS], axis=1)
SEARCHES = (
    ("cosine", 1, {}),
    ("dot", 10, {"exclude": _PAIRS}),
    ("l2", 10, {"keep_ties": True}),
    ("cosine", 300, {"threads": 3}),
)


@cache
def asked(make, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries, some of them documents, and documents."""
    rng = np.random.default_rng(seed)
    docs = make(rng)
    queries = rng.standard_normal((40, COLUMNS), dtype=np.float32) + 0.5
    queries[::4] = docs[:: N_DOCS // 10]
    return queries, docs


def search_all(make) -> list[tuple[bytes, bytes, bytes]]:
    return [searched(*asked(make, 4), k, metric=metric, **how) for metric, k, how in SEARCHES]


by_the_float32_product = cache(search_all)  # by the first width: all widths give the same bytes


@by_default(*FEW)
def test_the_same_lists_as_by_the_float32_product(make, width, monkeypatch):
    want = by_the_float32_product(make)
    always_coarse(monkeypatch)
    scans = count_coarse(monkeypatch)
    assert search_all(make) == want
    assert len(scans) == len(SEARCHES)


@by_default(front_loaded, in_a_cone)
def test_floors_guessed_by_the_float32_product_lose_nothing(make, width):
    assert by_depth(make, "native") == by_the_numpy_engine(make)


@cache
def by_the_numpy_engine(make):
    return by_depth(make, "numpy")


def by_depth(make, engine):
    """Lists of several depths, metrics and left-out pairs, as bytes."""
    rng = np.random.default_rng(8)
    docs = make(rng)
    queries = rng.standard_normal((20, COLUMNS), dtype=np.float32) + 0.5
    queries[::4] = docs[:: N_DOCS // 5][:5]
    pairs = np.stack([np.arange(2000) % 20, np.arange(2000) * 7 % N_DOCS], axis=1)
    asked = ((1, {}), (60, {"metric": "l2"}), (300, {"exclude": pairs}))
    found = [rank(queries, docs, k, engine=engine, **how) for k, how in asked]
    return [(one.docs.tobytes(), one.scores.tobytes()) for one in found]


def counted(queries, docs, targets, **how):
    found = target_ranks(queries, docs, targets, engine="native", **how)
    return found.above.tobytes(), found.tied.tobytes(), found.before.tobytes()


@cache
def counts_asked(make):
    """Targets at the top, where 8 bits decide nearly all, in the middle, where not, and nowhere."""
    queries, docs = asked(make, 5)
    order = np.argsort(-(queries @ docs.T), axis=1)
    targets = order[np.arange(40), np.array([0, 3, 50, 1000, N_DOCS // 2])[np.arange(40) % 5]]
    targets[7] = -1
    pairs = np.stack([np.arange(3000) % 40, np.arange(3000) * 5], axis=1)
    pairs = pairs[pairs[:, 1] != targets[pairs[:, 0]]]
    cases = [("cosine", {}), ("dot", {"exclude": pairs}), ("l2", {"threads": 3})]
    want = [counted(queries, docs, targets, metric=metric, **how) for metric, how in cases]
    return targets, cases, want  # by the first width: all widths give the same bytes


@by_default(clustered, of_all_lengths)
def test_targets_stand_where_the_float32_product_says(make, width, monkeypatch):
    queries, docs = asked(make, 5)
    targets, cases, want = counts_asked(make)
    always_coarse(monkeypatch)
    scans = count_coarse(monkeypatch)
    ready = prepare(docs)
    found = [counted(queries, ready, targets, metric=metric, **how) for metric, how in cases]
    assert found == want
    assert len(scans) >= len(cases)


def count_coarse(patch: pytest.MonkeyPatch) -> list[Docs]:
    """The blocks that were searched by 8 bits."""
    blocks: list[Docs] = []
    make = plan.SearchPlan.prepared_docs

    def noting(self, block):
        docs = make(self, block)
        if docs.coarse is not None:
            blocks.append(docs)
        return docs

    patch.setattr(plan.SearchPlan, "prepared_docs", noting)
    patch.setattr(plan.SearchPlan, "counted_docs", note_counted(blocks))
    patch.setattr(plan.SearchPlan, "stored_docs", note_stored(blocks))
    return blocks


def note_stored(blocks: list):
    """As `stored_docs`; notes its blocks."""
    make = plan.SearchPlan.stored_docs

    def noting(self, axis):
        for made in make(self, axis):
            blocks.append(made)
            yield made

    return noting


def note_counted(blocks: list[Docs]):
    """As `counted_docs`; notes blocks that were quantised for this search."""
    make = plan.SearchPlan.counted_docs

    def noting(self, block, docs, *targets):
        for part in make(self, block, docs, *targets):
            if part.coarse is not None and docs.coarse is None:
                blocks.append(part)
            yield part

    return noting


def test_which_searches_go_by_8_bits(width, monkeypatch):
    """Many queries in many documents, but not where most documents would have to be looked at."""
    rng = np.random.default_rng(7)
    docs = rng.standard_normal((9000, 64), dtype=np.float32)
    queries = rng.standard_normal((130, 64), dtype=np.float32)
    centres = rng.standard_normal((5, 64))
    near = (np.repeat(centres, 1800, axis=0) + 1e-3 * docs).astype(np.float32)
    scans = count_coarse(monkeypatch)
    rank(queries, docs, 10)
    assert not scans  # too little to multiply
    monkeypatch.setattr(plan, "COARSE_WORK", 0)
    rank(queries, centres[:1] + 1e-3 * docs, 10)  # in a cone: by what they do not share
    assert len(scans) == 1
    scans.clear()
    rank(queries, docs, 10)
    assert len(scans) == 1
    for given in ((queries[:127], docs, 10), (queries, docs[:4000], 10), (queries, near, 10)):
        rank(*given)
    rank(queries, docs, 1000)
    rank(queries, docs, 10, engine="numpy")
    assert len(scans) == 1


def targets_in_turn(monkeypatch, rows: int) -> list[int]:
    """How many parts are quantised to count targets at the top, in the middle, and anywhere."""
    rng = np.random.default_rng(8)
    docs = rng.standard_normal((1500, 64), dtype=np.float32)
    queries = docs[:rows] + 0.5 * rng.standard_normal((rows, 64), dtype=np.float32)
    own, other = np.arange(rows), np.arange(rows)[::-1].copy()
    none = np.full(rows, -1)
    scans = count_coarse(monkeypatch)
    found = []
    for targets in (own, other, none):
        scans.clear()
        target_ranks(queries, docs, targets)
        found.append(len(scans))
    return found


def test_which_targets_are_counted_by_8_bits(width, monkeypatch):
    """Those that 8 bits tell from most documents, where there is enough to count."""
    assert targets_in_turn(monkeypatch, 130) == [0, 0, 0]
    monkeypatch.setattr(plan, "COARSE_WORK", 0)
    assert targets_in_turn(monkeypatch, 130) == [1, 0, 0]
    assert targets_in_turn(monkeypatch, 120) == [0, 0, 0]


@by_default(*FEW)
def test_targets_are_counted_alike_where_documents_are_quantised_in_parts(make, width, monkeypatch):
    queries, docs = asked(make, 5)
    targets, cases, want = counts_asked(make)
    always_coarse(monkeypatch)
    monkeypatch.setattr(plan, "COARSE_BYTES", docs.size // 6)
    scans = count_coarse(monkeypatch)
    found = [counted(queries, docs, targets, metric=metric, **how) for metric, how in cases]
    assert found == want
    assert len(scans) > 2 * len(cases)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
@pytest.mark.parametrize("metric", METRICS)
def test_other_types(dtype, metric, width, monkeypatch):
    rng = np.random.default_rng(6)
    docs = (20 * rng.standard_normal((5000, 40))).astype(dtype)
    queries = (20 * rng.standard_normal((70, 40))).astype(dtype)
    want = searched(queries, docs, 20, metric=metric)
    always_coarse(monkeypatch)
    scans = count_coarse(monkeypatch)
    assert searched(queries, docs, 20, metric=metric) == want
    assert len(scans) == 1
