"""Expected values far down a list and over large tie groups, against rational arithmetic."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from assay import Ids, evaluate, preset, score
from assay.arrays import power
from assay.core.hits import Hits
from assay.errors import MeasureError
from assay.measures import expected, views
from assay.measures.expected import hypergeometric, place_of

RULES = preset("trec_eval").replace(ties="expected")
Ranked = Sequence[tuple[int, float]]  # ranks with their grades, rising


def one_query(
    above: int, size: int, grades: Sequence[float], *, first: tuple[int, float] | None = None
) -> Hits:
    """One query: judged documents in a tie group after rank `above`, perhaps one before it."""
    found = ([(first[0], first[0], first[1])] if first else []) + [
        (above + 1, above + size, grade) for grade in sorted(grades, reverse=True)
    ]
    lo, hi, grade = (np.array(column) for column in zip(*found, strict=True))
    kinds, counts = np.unique(np.append(grade, 0.0)[:-1], return_counts=True)
    start = np.arange(len(found)) - (1 if first else 0)
    return Hits(
        query_ids=Ids.of(["q"]),
        offsets=np.array([0, len(found)]),
        rank=lo + np.where(lo < hi, start, 0),
        rank_lo=lo,
        rank_hi=hi,
        grade=grade.astype(np.float64),
        n_ret=np.array([above + size]),
        pool_offsets=np.array([0, len(kinds)]),
        pool_grade=kinds.astype(np.float64),
        pool_count=counts,
        n_docs=np.array([above + size]),
        missing=np.zeros(1, bool),
    )


def good(ranked: Ranked, k: float = math.inf) -> list[int]:
    return [rank for rank, grade in ranked if grade >= 1 and rank <= k]


def average_precision(ranked: Ranked, k: float = math.inf) -> Fraction:
    return sum((Fraction(i, r) for i, r in enumerate(good(ranked, k), 1)), Fraction(0))


def err(ranked: Ranked) -> Fraction:
    alive, total = Fraction(1), Fraction(0)
    for rank, grade in ranked:
        stop = Fraction(2 ** int(grade) - 1, 16)
        total, alive = total + alive * stop / rank, alive * (1 - stop)
    return total


def bpref(ranked: Ranked) -> Fraction:
    n_good = len(good(ranked))
    n_bad = len(ranked) - n_good
    total, above = Fraction(0), 0
    for _, grade in ranked:
        above += grade < 1
        if grade >= 1:
            total += 1 - Fraction(min(above, n_good), min(n_bad, n_good)) if above else 1
    return total / n_good


def interpolated(ranked: Ranked, least: int) -> Fraction:
    return max(Fraction(i, r) for i, r in enumerate(good(ranked), 1) if i >= least)


def discounted(ranked: Ranked) -> Fraction:
    return sum((Fraction(g / math.log2(1 + r)) for r, g in ranked), Fraction(0))


CUT = 1_000_003  # three places into the tie group
PLAIN: dict[str, Callable[[Ranked], Fraction]] = {
    "AP": lambda x: average_precision(x) / len(good(x)),
    f"AP@{CUT}": lambda x: average_precision(x, CUT) / len(good(x)),
    f"AP(over=min)@{CUT}": lambda x: average_precision(x, CUT) / len(good(x)),
    f"AP(over=k)@{CUT}": lambda x: average_precision(x, CUT) / CUT,
    f"AP(over=hits)@{CUT}": lambda x: average_precision(x, CUT) / max(len(good(x, CUT)), 1),
    "GMAP": lambda x: average_precision(x) / len(good(x)),
    "RR": lambda x: Fraction(1, good(x)[0]),
    f"RR@{CUT}": lambda x: Fraction(1, good(x)[0]) if good(x, CUT) else Fraction(0),
    f"P@{CUT}": lambda x: Fraction(len(good(x, CUT)), CUT),
    f"R@{CUT}": lambda x: Fraction(len(good(x, CUT)), len(good(x))),
    f"Success@{CUT}": lambda x: Fraction(bool(good(x, CUT))),
    "ERR": err,
    "bpref": bpref,
    "iprec@0": lambda x: interpolated(x, 1),
    "iprec@1": lambda x: interpolated(x, len(good(x))),
    "nDCG": lambda x: (
        discounted(x) / discounted(list(enumerate(sorted((g for _, g in x), reverse=True), 1)))
    ),
    "RBP(p=0.99999)": lambda x: sum(
        (Fraction((1 - 0.99999) * 0.99999 ** (r - 1)) for r in good(x)), Fraction(0)
    ),
}


def over_all_orders(
    above: int, size: int, grades: Sequence[float], first: tuple[int, float] | None
) -> list[Ranked]:
    known = [first] if first else []
    return [
        [*known, *sorted(zip(places, grades, strict=True))]
        for places in itertools.permutations(range(above + 1, above + size + 1), len(grades))
    ]


@pytest.mark.parametrize("first", [None, (4, 2.0)])
@pytest.mark.parametrize("grades", [(1.0,), (3.0, 1.0, 0.0), (2.0, 1.0, 1.0, 0.0)])
@pytest.mark.parametrize("name", PLAIN)
def test_below_a_million_documents(name, grades, first):
    above, size = 1_000_000, 7
    orders = over_all_orders(above, size, grades, first)
    wanted = sum((PLAIN[name](order) for order in orders), Fraction(0)) / len(orders)
    hits = one_query(above, size, grades, first=first)
    found = score(hits, name, conventions=RULES).values[0, 0]
    assert found == pytest.approx(float(wanted), rel=2e-15, abs=0)
    assert type(wanted) is Fraction


def test_a_rank_beyond_any_table():
    """Nothing is computed for the ranks above the group."""
    hits = one_query(10**14, 3, (2.0, 1.0, 0.0))
    names = ["AP", "RR", "nDCG", "ERR", "bpref", "iAP", "RBP", "Judged"]
    values = score(hits, names, conventions=RULES).values[:, 0]
    assert np.isfinite(values).all()
    assert values[1] == pytest.approx((2 / 3 * 1 + 1 / 3 * 1) / 1e14, rel=1e-12)


N = 10**6


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Success@1", 3 / N),
        ("Success@10", float(1 - math.prod(Fraction(N - 3 - i, N - i) for i in range(10)))),
        ("P@10", 3 / N),
        ("bpref", None),
        ("AP", None),
        ("RR", None),
        ("ERR(gmax=1)", None),
    ],
)
def test_a_whole_collection_in_one_group(name, wanted):
    """Three relevant documents among a million: a law of places, added up exactly."""
    hits = one_query(0, N, (1.0, 1.0, 1.0, 0.0))
    j = np.arange(1, N + 1, dtype=np.float64)
    if name == "bpref":  # its one judged bad document is before, between or after the three
        wanted = (0 + 1 + 2 + 3) / 4 / 3
    if name == "AP":
        wanted = math.fsum((3 / N * (1 + (j - 1) * 2 / (N - 1)) / j).tolist()) / 3
    if name == "RR":
        wanted = math.fsum(first_of_three(j) / j)
    if name == "ERR(gmax=1)":  # stops with 1/2 at each: by the place of each of the three
        wanted = math.fsum(first_of_three(j) / j) / 2
        wanted += math.fsum(6 * (j - 1) * (N - j) / N / (N - 1) / (N - 2) / j) / 4
        wanted += math.fsum(3 * (j - 1) * (j - 2) / N / (N - 1) / (N - 2) / j) / 8
    found = score(hits, name, conventions=RULES).values[0, 0]
    assert found == pytest.approx(wanted, rel=2e-13, abs=0)


def first_of_three(j: np.ndarray) -> np.ndarray:
    return 3 * (N - j) * (N - j - 1) / N / (N - 1) / (N - 2)


def test_the_laws_of_places_and_of_counts():
    for n, m in itertools.product(range(1, 9), range(1, 9)):
        if m > n:
            continue
        for t in range(n + 1):
            x, law = hypergeometric(n, m, t)
            wanted = [
                Fraction(math.comb(m, i) * math.comb(n - m, t - i), math.comb(n, t))
                for i in x.tolist()
            ]
            np.testing.assert_allclose(law, [float(w) for w in wanted], rtol=1e-14)
        for i in range(1, m + 1):
            j, law = place_of(i, n, m)
            wanted = [
                Fraction(math.comb(p - 1, i - 1) * math.comb(n - p, m - i), math.comb(n, m))
                for p in j.tolist()
            ]
            np.testing.assert_allclose(law, [float(w) for w in wanted], rtol=1e-14)


BETWEEN = [(211, 210), (7_450, 6), (2_236, 20), (447, 100)]


@pytest.mark.parametrize(
    ("n", "m"),
    [
        (10**6, 1),
        *(pytest.param(*between, marks=pytest.mark.slow) for between in BETWEEN),
    ],
)
def test_interpolated_precision_is_computed_up_to_its_limit_of_work(n, m):
    hits = one_query(0, n, (1.0,) * m)
    values = score(hits, "iAP", conventions=RULES).values
    assert 0 < values[0, 0] < 1


def test_more_work_than_the_limit_is_refused():
    for name, hits, words in (
        ("iAP", one_query(0, 100_000, (1.0, 1.0)), "100000 documents with 2 relevant"),
        ("ERR", one_query(0, 10**6, (1.0,) * 300), "1000000 documents with 300 relevant"),
    ):
        with pytest.raises(MeasureError, match=f"{words} is too much work"):
            score(hits, name, conventions=RULES)


def test_the_largest_of_several_tie_groups_is_named():
    run = {"q": {f"d{i}": float(i < 5) for i in range(1005)}}
    qrels = {"q": {f"d{i}": 1 for i in [0, 1, *range(5, 55)]}}
    with pytest.raises(MeasureError, match="tie group of 1000 documents with 50 relevant"):
        evaluate(run, qrels, "iAP", conventions=RULES)


def test_err_of_a_large_group_is_known_down_to_the_cutoff_that_its_refusal_names():
    hits = one_query(0, 10**6, (1.0,) * 300)
    assert 0 < score(hits, "ERR@4096", conventions=RULES).values[0, 0] < 1
    with pytest.raises(MeasureError, match="Use a cutoff of 4096 or less"):
        score(hits, "ERR@4097", conventions=RULES)


# Sizes of blocks, and the two ways to the same number


@cache
def tied_lists() -> tuple[dict, dict]:
    rng = random.Random(7)
    run = {f"q{q}": {f"d{d}": rng.randrange(4) for d in range(12 + q)} for q in range(12)}
    return run, {
        q: {d: rng.choice([0, 1, 1, 3]) for d in run[q] if rng.random() < 0.4} for q in run
    }


def expectations(*names: str) -> np.ndarray:
    return evaluate(*tied_lists(), names, conventions=RULES).values


@pytest.mark.parametrize("size", [1, 5, 40])
def test_reciprocal_ranks_do_not_depend_on_the_rows_beside_them(size, monkeypatch):
    whole = expectations("RR", "RR@6")
    monkeypatch.setattr(expected, "CHUNK", size)
    assert expectations("RR", "RR@6").tobytes() == whole.tobytes()


@pytest.mark.parametrize("size", [1, 5, 40])
def test_rows_of_similar_length_share_a_bounded_block(size, monkeypatch):
    monkeypatch.setattr(expected, "CHUNK", size)
    length = np.array([7, 1, 0, 30, 2, 2, 9, 1, 50])
    chunks = list(itertools.islice(expected.chunks_by_length(length), len(length) + 1))
    assert sorted(np.concatenate(chunks).tolist()) == list(range(len(length)))
    assert all(len(rows) == 1 or len(rows) * length[rows].max() <= size for rows in chunks)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_sums_over_many_ranks_are_the_sums_of_their_parts(size, monkeypatch):
    names = "nDCG", "AP", "RBP", "nDCG@9", "AP@9"
    whole = expectations(*names)
    monkeypatch.setattr(views, "LONG", size)
    np.testing.assert_allclose(expectations(*names), whole, rtol=1e-14, atol=0)


def test_err_place_by_place_and_document_by_document(monkeypatch):
    names = "ERR", "ERR@3", "ERR@9"
    in_turn = expectations(*names)
    monkeypatch.setattr(expected, "ERR_LOOP", 0)
    np.testing.assert_allclose(expectations(*names), in_turn, rtol=1e-14, atol=0)


@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_the_weights_of_rbp_are_powers_to_the_last_digit(p):
    """Whatever instructions the processor has."""
    ranks = range(1, 1001)
    powers = power(p, np.arange(1000.0)).tolist()
    for rank, value in zip(ranks, powers, strict=True):
        last = Fraction(math.ulp(value))
        assert abs(Fraction(value) - Fraction(p) ** (rank - 1)) <= Fraction(501, 1000) * last
    qrels = {f"q{rank:04}": {f"d{rank}": 1} for rank in ranks}
    docs = {f"d{rank}": 2000.0 - rank for rank in ranks}
    run = dict.fromkeys(qrels, docs)
    values = evaluate(run, qrels, f"RBP(p={p})").values[0].tolist()
    assert values == [(1 - p) * value for value in powers]
