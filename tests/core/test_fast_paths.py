"""Shortcuts for common input give what the long way gives, to the last bit."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Judgments, Ranking, evaluate, judge
from assay.arrays import exact_group_sums, exact_row_sums, exact_sum
from assay.core.ids import Ids
from assay.errors import MismatchError
from assay.native import load

numbers = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.floats(-1, 1), max_size=60))
def test_exact_sum_is_fsum(values: list[float]) -> None:
    assert exact_sum(np.array(values, np.float64)) == math.fsum(values)


@pytest.mark.parametrize(
    "values", [[1e300, 1.0, -1e300], [5.0, 0.1], [2.0**-1070, 1.0], [0.1] * 999]
)
def test_exact_sum_of_what_three_pieces_cannot_hold(values: list[float]) -> None:
    assert exact_sum(np.array(values)) == math.fsum(values)


@pytest.mark.parametrize("bits", [0, 26, 30, 52, 60])
def test_exact_sums_of_many_values_of_one_size(bits: int) -> None:
    """The sum of each piece must be exact: a rounded one shows in the last digits."""
    values = np.random.default_rng(bits).uniform(-1, 1, (20, 999)) * 2.0**-bits
    expected = [math.fsum(row) for row in values.tolist()]
    assert [exact_sum(row) for row in values] == expected
    assert exact_group_sums(values.ravel(), np.arange(20).repeat(999), 20).tolist() == expected


@pytest.mark.parametrize("columns", [7, 100, 401, 8191, 16_384, 40_000])
def test_exact_sums_of_rows_are_fsums_whatever_stands_in_other_rows(columns: int) -> None:
    rng = np.random.default_rng(columns)
    easy = rng.integers(1, 9, (58, columns)) / rng.integers(9, 99, (58, columns))
    hard = [easy[0] * 2.0**-70, easy[1] * 5, np.where(easy[2] > 0.1, 0.0, 1e300), -easy[3]]
    for table in (easy, np.array([*easy[:3], *hard, easy[4]]), np.zeros((60, columns))):
        assert exact_row_sums(table) == [math.fsum(row) for row in table.tolist()]
    assert math.isnan(exact_row_sums(np.full((1, columns), np.nan))[0])


_values = st.one_of(st.floats(-1, 1), st.floats(-1e9, 1e9), st.sampled_from([2.0**-1070, 1e300]))


@given(st.lists(st.tuples(st.integers(0, 5), _values), max_size=60))
def test_exact_sums_of_groups_are_fsums(pairs: list[tuple[int, float]]) -> None:
    pairs.sort(key=lambda pair: pair[0])
    groups, values = np.array([g for g, _ in pairs], np.int64), np.array([v for _, v in pairs])
    expected = [math.fsum(value for group, value in pairs if group == k) for k in range(7)]
    assert exact_group_sums(values, groups, 7).tolist() == expected


@given(st.integers(-5, 5), st.integers(0, 9), st.lists(st.integers(-9, 15), unique=True))
def test_places_in_a_range_of_numbers(first: int, size: int, wanted: list[int]) -> None:
    others = list(range(first, first + size))
    expected = [others.index(one) if one in others else -1 for one in wanted]
    found = Ids.of(np.array(wanted, np.int64)).match(Ids.of(np.array(others, np.int64)))
    assert found.tolist() == expected


@given(st.lists(numbers, max_size=8), st.booleans())
def test_order_and_duplicates_of_any_numbers(values: list[int], rising: bool) -> None:
    values = sorted(values) if rising else values
    texts = list(map(str, values))
    ids = Ids.of(np.array(values, np.int64))
    assert ids.order().tolist() == sorted(range(len(values)), key=texts.__getitem__)
    down = sorted(range(len(values)), key=texts.__getitem__, reverse=True)
    assert [values[i] for i in ids.order(descending=True)] == [values[i] for i in down]
    assert (ids.first_duplicate() is None) == (len(set(values)) == len(values))


def test_a_range_at_the_edge_of_int64() -> None:
    edge = Ids.of(np.array([2**63 - 2, 2**63 - 1]))
    assert Ids.of(np.array([-(2**63), 2**63 - 1, 0])).match(edge).tolist() == [-1, 1, -1]


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_grades_are_counted_highest_first(engine: str) -> None:
    kernels = _load(engine)
    offsets, grade, count = kernels.count_grades(
        np.array([0, 4, 4, 7]), np.array([0.0, 2.0, -0.0, 2.0, -1.0, 0.5, -1.0])
    )
    assert offsets.tolist() == [0, 2, 2, 4]
    assert grade.tolist() == [2.0, 0.0, 0.5, -1.0]
    assert not np.signbit(grade[1])
    assert count.tolist() == [2, 2, 1, 2]
    assert (offsets.dtype, count.dtype) == (np.int64, np.int64)


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_bad_grades_and_offsets_are_refused(engine: str) -> None:
    kernels = _load(engine)
    with pytest.raises(ValueError, match="NaN"):
        kernels.count_grades(np.array([0, 1]), np.array([np.nan]))
    with pytest.raises(ValueError, match="offsets"):
        kernels.count_grades(np.array([0, 2]), np.array([1.0]))


def test_engines_count_grades_alike() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 50, 300)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    halves = rng.integers(-2, 5, offsets[-1]) / 2
    whole = rng.integers(0, 4, offsets[-1]).astype(np.float64)
    wide = np.where(rng.random(offsets[-1]) < 0.9, whole, rng.integers(14, 18, offsets[-1]))
    for grades in (halves, whole, wide, np.where(whole > 0, whole, -0.0)):
        native, twin = (_load(name).count_grades(offsets, grades) for name in ("native", "numpy"))
        for left, right in zip(native, twin, strict=True):
            assert left.tobytes() == right.tobytes()


def test_the_order_of_judgments_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    ranking = Ranking.from_arrays([rng.permutation(50)[:20] for _ in range(9)], n_docs=50)
    row, doc = np.divmod(rng.choice(9 * 50, 120, replace=False), 50)
    grade = rng.integers(0, 4, 120).astype(np.float64)
    reference = None
    for order in (np.lexsort((doc, row)), np.lexsort((-doc, row)), rng.permutation(120)):
        pairs = Judgments.from_pairs(
            Ids.count(9), Ids.count(50), row[order], doc[order], grade[order]
        )
        hits = judge(ranking, pairs)
        found = [hits.offsets, hits.rank, hits.grade, hits.pool_grade, hits.pool_count]
        reference = reference or found
        for left, right in zip(reference, found, strict=True):
            assert left.tobytes() == right.tobytes()


def test_a_pair_with_two_grades_is_refused_in_any_order() -> None:
    for docs, grades in (([1, 2, 1], [1, 1, 0]), ([1, 1, 2], [1, 0, 1])):
        with pytest.raises(MismatchError, match="twice"):
            Judgments.from_pairs(Ids.count(1), Ids.count(3), [0, 0, 0], docs, grades)


def _load(engine: str):  # type: ignore[no-untyped-def]
    try:
        return load(engine)  # type: ignore[arg-type]
    except ImportError:
        pytest.skip("the compiled kernels were not built")


@pytest.mark.parametrize("conventions", ["trec_eval", "sentence_transformers", "beir"])
def test_judgments_that_were_used_before_give_what_new_ones_give(conventions: str) -> None:
    rng = np.random.default_rng(3)
    queries, docs = Ids.of([f"q{n}" for n in range(12)]), Ids.of([f"d{n}" for n in range(40)])

    def judgments() -> Judgments:
        pairs = np.random.default_rng(4).permutation(12 * 40)[:90]
        return Judgments.from_pairs(queries, docs, pairs // 40, pairs % 40, pairs % 4)

    measures = ["RR", "AP", "Rprec", "AP(rel=2)", "bpref", *(f"nDCG@{k}" for k in range(1, 25))]
    used = judgments()
    for size in (12, 9, 12):  # a judged query that is missing, and then is not
        found = np.array([rng.permutation(40)[:30] for _ in range(size)])
        rows = queries.take(rng.permutation(12)[:size])
        ranking = Ranking.from_arrays(found, rng.random(found.shape), query_ids=rows, doc_ids=docs)
        expected = evaluate(ranking, judgments(), measures, conventions=conventions)
        again = evaluate(ranking, used, measures, conventions=conventions)
        sent = evaluate(
            ranking, pickle.loads(pickle.dumps(used)), measures, conventions=conventions
        )
        for one in (again, sent):
            assert one.values.tobytes() == expected.values.tobytes()
            assert one.missing.tolist() == expected.missing.tolist()
            assert one.query_ids == expected.query_ids
