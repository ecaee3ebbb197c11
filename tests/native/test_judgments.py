"""The join of rankings and judgments: native = twin = a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

N_DOCS = 10


@st.composite
def ranking_and_judgments(draw):
    rows = draw(st.integers(0, 5))
    docs, scores, judged = [], [], []
    for _ in range(rows):
        row = draw(st.lists(st.integers(0, N_DOCS - 1), max_size=N_DOCS, unique=True))
        values = draw(
            st.lists(st.sampled_from([1.0, 0.0, -0.0]), min_size=len(row), max_size=len(row))
        )
        docs.append(row)
        scores.append(sorted(values, reverse=True))
        judged.append(draw(st.lists(st.integers(-1, N_DOCS - 1), max_size=N_DOCS)))
    return docs, scores, judged


def csr(rows, dtype):
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return offsets, np.array([value for row in rows for value in row], dtype)


def arguments(docs, scores, judged):
    offsets, codes = csr(docs, np.int32)
    judged_offsets, judged_codes = csr(judged, np.int32)
    grades = np.arange(len(judged_codes), dtype=np.float64)
    rows, values = np.arange(len(docs)), csr(scores, np.float64)[1]
    return offsets, codes, values, rows, judged_offsets, judged_codes, grades, N_DOCS


def expected(docs, scores, judged):
    hits, first = [], 0
    for row, values, known in zip(docs, scores, judged, strict=True):
        hits.append(
            [
                (
                    rank,
                    values.index(values[rank - 1]) + 1,
                    len(values) - values[::-1].index(values[rank - 1]),
                    float(first + known.index(doc)),
                )
                for rank, doc in enumerate(row, 1)
                if doc in known
            ]
        )
        first += len(known)
    return hits


@examples(100)
@given(data=ranking_and_judgments())
def test_find_judged_equals_a_plain_loop(engine, data):
    offsets, *columns = engine.find_judged(*arguments(*data))
    hits = expected(*data)
    assert offsets.tolist() == np.cumsum([0, *map(len, hits)]).tolist()
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert found == [hit for row in hits for hit in row]


@examples(100)
@given(data=ranking_and_judgments())
def test_find_judged_equals_its_twin(both, data):
    native, twin = (kernels.find_judged(*arguments(*data)) for kernels in both)
    for a, b in zip(native, twin, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


@examples(100)
@given(data=ranking_and_judgments(), random=st.randoms(use_true_random=False))
def test_judged_queries_in_any_order_have_the_hits_of_their_rows(engine, data, random):
    docs, scores, judged = data
    rows = random.sample(range(len(docs) + 1), len(docs))  # the last is not there, and empty
    ranked = arguments(*data)[:3]
    offsets, *columns = engine.find_judged(*ranked, np.array(rows, np.int64), *arguments(*data)[4:])
    there = [([*docs, []][row], [*scores, []][row]) for row in rows]
    hits = expected([row for row, _ in there], [values for _, values in there], judged)
    assert offsets.tolist() == np.cumsum([0, *map(len, hits)]).tolist()
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert found == [hit for row in hits for hit in row]


def many_rows(n_judged, sort):
    """Rows with ties, longer than what is compared at once, judged documents in another order."""
    rng = np.random.default_rng(5)
    docs = np.array([rng.permutation(1000)[:300] for _ in range(500)], np.int32).ravel()
    judged = np.array([rng.permutation(1000)[:n_judged] for _ in range(500)], np.int32).ravel()
    scores = rng.integers(0, 50, (500, 300)).astype(float)
    offsets, ends = np.arange(501) * 300, np.arange(501) * n_judged
    values = (-np.sort(-scores, axis=1) if sort else scores).ravel()
    return offsets, docs, values, rng.permutation(500), ends, judged, rng.random(len(judged)), 1000


@pytest.mark.parametrize("n_judged", [1, 4, 5, 40])
def test_many_rows_give_the_same_answer_with_threads(both, n_judged):
    native, twin = (kernels.find_judged(*many_rows(n_judged, sort=True)) for kernels in both)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(native, twin, strict=True))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33])
def test_a_few_judged_documents_are_found_at_every_place(engine, size):
    docs = [[*range(size)]] * (size + 1)
    judged = [[place, 99, place] for place in range(size + 1)]  # the last one is not there
    given = arguments(docs, [[*range(size, 0, -1)]] * (size + 1), judged)
    offsets, rank, *_, grade = engine.find_judged(*given[:-1], 100)
    assert offsets.tolist() == [*range(size + 1), size]
    assert rank.tolist() == list(range(1, size + 1))
    assert grade.tolist() == list(range(0, 3 * size, 3))  # the first of two judgments


def test_wrong_codes_and_sizes_are_refused(engine):
    good = arguments([[1, 2]], [[2.0, 1.0]], [[1]])
    wrong = [(1, [1, 10]), (1, [-1, 1]), (5, [10]), (5, [-2]), (0, [0, 1]), (4, [0])]
    for place, value in (*wrong, (3, [2]), (3, [-1]), (3, [0, 0]), (3, [])):
        bad = list(good)
        bad[place] = np.array(value, good[place].dtype)
        with pytest.raises(ValueError, match=r"range|offsets|have a row"):
            engine.find_judged(*bad)


@st.composite
def unsorted_rows_and_judgments(draw):
    docs, scores, judged = draw(ranking_and_judgments())
    shuffled = []
    for row, values in zip(docs, scores, strict=True):
        pairs = draw(st.permutations(list(zip(row, values, strict=True))))
        shuffled.append(([doc for doc, _ in pairs], [value for _, value in pairs]))
    # A document judged twice is the business of the loader.
    known = [list(dict.fromkeys(row)) for row in judged]
    return [row for row, _ in shuffled], [values for _, values in shuffled], known


@examples(100)
@given(data=unsorted_rows_and_judgments())
def test_counting_equals_sorting_first(engine, data):
    docs, scores, judged = data
    in_order = [
        sorted(zip(row, values, strict=True), key=lambda pair: (-pair[1], pair[0]))
        for row, values in zip(docs, scores, strict=True)
    ]
    counted = engine.count_judged(*arguments(docs, scores, judged))
    found = engine.find_judged(
        *arguments(
            [[doc for doc, _ in row] for row in in_order],
            [[value for _, value in row] for row in in_order],
            judged,
        )
    )
    assert all(a.tobytes() == b.tobytes() for a, b in zip(counted, found, strict=True))


@pytest.mark.parametrize("n_judged", [1, 5, 32, 33, 200])
def test_counting_many_rows_equals_its_twin(both, n_judged):
    native, twin = (kernels.count_judged(*many_rows(n_judged, sort=False)) for kernels in both)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(native, twin, strict=True))


@examples(100)
@given(rows=st.lists(st.lists(st.integers(0, 6), max_size=6), max_size=6))
def test_first_repeat_is_the_first_place_of_a_second_mention(engine, rows):
    offsets, docs = csr(rows, np.int32)
    places = [
        start + place
        for start, row in zip(offsets.tolist(), rows, strict=False)
        for place, doc in enumerate(row)
        if doc in row[:place]
    ]
    assert engine.first_repeat(offsets, docs) == min(places, default=-1)


def test_first_repeat_in_many_rows(both):
    docs = np.tile(np.arange(100, dtype=np.int32), 5000)
    offsets = np.arange(5001) * 100
    assert [kernels.first_repeat(offsets, docs) for kernels in both] == [-1, -1]
    docs[[123_456, 400_000]] = docs[[123_457, 400_001]]
    assert [kernels.first_repeat(offsets, docs) for kernels in both] == [123_457, 123_457]
