"""Fusion: against fractions and plain loops, whatever the order of the lists."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from assay import Ids, Ranking, fuse
from assay.errors import AssayError, MismatchError, StorageError, UsageError, ValueRangeError
from assay.search.fusion import METHODS

Rows = list[list[tuple[Any, float]]]


def random_lists(
    seed: int, n_lists: int = 3, n_queries: int = 6, n_docs: int = 30
) -> list[Ranking]:
    """Lists of different depth over one collection, with scores that tie often."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n_lists):
        depth = int(rng.integers(1, n_docs + 1))
        docs = np.array([rng.permutation(n_docs)[:depth] for _ in range(n_queries)])
        scores = rng.integers(-4, 5, size=docs.shape) / 4
        made.append(Ranking.from_arrays(docs, scores, n_docs=n_docs))
    return made


def rows(ranking: Ranking) -> Rows:
    return [ranking.row(query) for query in ranking.query_ids]


def exact_parts(row: list[tuple[Any, float]], method: str, normalize: str | None) -> dict[Any, Any]:
    """What one list gives to its documents: fractions, but floats where a root is taken."""
    if method == "rrf":
        return {doc: Fraction(1, 60 + rank) for rank, (doc, _) in enumerate(row, 1)}
    values = [score for _, score in row]
    if normalize is None:
        return {doc: Fraction(score) for doc, score in row}
    low, span = min(values), max(values) - min(values)
    unit = [(value - low) / span if span else 1.0 for value in values]
    if normalize == "zscore" and span:
        mean = sum(unit) / len(unit)
        deviation = math.sqrt(sum((u - mean) ** 2 for u in unit) / len(unit))
        unit = [u / deviation for u in unit]
    return {doc: u for (doc, _), u in zip(row, unit, strict=True)}


def brute_force(lists: Any, method: str, normalize: str | None, weights: Any = None) -> Rows:
    """Fused rows by plain loops."""
    weights = weights or [1] * len(lists)
    answer = []
    for query in lists[0].query_ids:
        total: dict[Any, Any] = {}
        held: dict[Any, int] = {}
        for one, weight in zip(lists, weights, strict=True):
            for doc, part in exact_parts(one.row(query), method, normalize).items():
                total[doc] = total.get(doc, 0) + Fraction(weight) * Fraction(part)
                held[doc] = held.get(doc, 0) + 1
        if method == "combmnz":
            total = {doc: value * held[doc] for doc, value in total.items()}
        best = sorted(total, key=lambda doc: (-float(total[doc]), doc))
        answer.append([(doc, float(total[doc])) for doc in best])
    return answer


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [None, [0.3, 2.0, 1.7]])
@pytest.mark.parametrize(
    ("method", "normalize"), [("rrf", None), ("combsum", "minmax"), ("combmnz", "minmax")]
)
def test_every_score_is_the_exact_one_rounded(
    seed: int, weights: Any, method: Any, normalize: Any
) -> None:
    lists = random_lists(seed)
    fused = fuse(lists, method=method, normalize=normalize, weights=weights)
    assert rows(fused) == brute_force(lists, method, normalize, weights)


@pytest.mark.parametrize("method", ["combsum", "combmnz"])
def test_z_scores_agree_with_a_plain_loop(method: Any) -> None:
    for seed in range(5):
        lists = random_lists(seed)
        wanted = brute_force(lists, method, "zscore")
        for mine, theirs in zip(
            rows(fuse(lists, method=method, normalize="zscore")), wanted, strict=True
        ):
            assert dict(mine) == pytest.approx(dict(theirs), rel=1e-13)


def test_combsum_of_z_scores_ranks_like_the_usual_z_score_with_the_lowest_for_missing() -> None:
    rng = np.random.default_rng(3)
    scores = [rng.normal(size=12) for _ in range(2)]
    kept = [np.argsort(-s)[:8] for s in scores]
    lists = [Ranking.from_arrays([k], [s[k]], n_docs=12) for k, s in zip(kept, scores, strict=True)]
    total = np.zeros(12)
    for k, s in zip(kept, scores, strict=True):
        z = (s[k] - s[k].mean()) / s[k].std()
        total += [z[list(k).index(d)] if d in k else z.min() for d in range(12)]
    fused = fuse(lists, method="combsum", normalize="zscore")
    union = set(np.concatenate(kept).tolist())
    assert [doc for doc, _ in fused.row(0)] == [d for d in np.argsort(-total) if d in union]


@pytest.mark.parametrize("normalize", ["minmax", "zscore"])
@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_lists_changes_no_bit(method: Any, normalize: Any) -> None:
    lists = random_lists(11, n_lists=4)
    weights = [0.1, 0.7, 0.2, 1.3]
    answers = set()
    for turn in permutations(range(4)):
        fused = fuse(
            [lists[i] for i in turn],
            method=method,
            normalize=normalize,
            weights=[weights[i] for i in turn],
        )
        answers.add((fused.docs.tobytes(), fused.scores.tobytes(), fused.offsets.tobytes()))
    assert len(answers) == 1


def test_equal_sums_of_reciprocal_ranks_tie() -> None:
    """1/63 + 1/126 = 2/84: document 0 at ranks 3 and 66, document 1 twice at 24."""
    others = list(range(2, 102))
    first = [*others[:2], 0, *others[2:22], 1, *others[22:]]
    second = [*others[:23], 1, *others[23:64], 0, *others[64:]]
    lists = [Ranking.from_arrays([docs], n_docs=102) for docs in (first, second)]
    ranks = [[docs.index(d) + 1 for docs in (first, second)] for d in (0, 1)]
    assert ranks == [[3, 66], [24, 24]]
    score = dict(fuse(lists).row(0))
    assert score[0] == score[1]


def test_ties_follow_the_rule_of_the_lists() -> None:
    by_row = [Ranking.from_arrays([[0, 1]], n_docs=2), Ranking.from_arrays([[1, 0]], n_docs=2)]
    assert [doc for doc, _ in fuse(by_row).row(0)] == [0, 1]
    ids = Ids.of(["a", "b"])
    lines = {"queries": np.zeros(2, np.int32), "docs": np.array([0, 1], np.int32)}
    by_id = [
        Ranking.from_lines(Ids.of(["q"]), ids, scores=np.array(scores), **lines)
        for scores in ([1.0, 2.0], [2.0, 1.0])
    ]
    assert [doc for doc, _ in fuse(by_id).row("q")] == ["b", "a"]


def named(rows: dict[str, dict[str, float]]) -> Ranking:
    queries, docs = Ids.of(list(rows)), Ids.of(list({d: 0 for row in rows.values() for d in row}))
    lines = [(q, d, s) for q, row in rows.items() for d, s in row.items()]
    return Ranking.from_lines(
        queries,
        docs,
        queries=Ids.of([q for q, _, _ in lines]).match(queries).astype(np.int32),
        docs=Ids.of([d for _, d, _ in lines]).match(docs).astype(np.int32),
        scores=np.array([s for _, _, s in lines]),
    )


def test_lists_are_joined_by_id_and_a_query_of_one_list_is_kept() -> None:
    a = named({"q2": {"x": 3.0, "y": 1.0}, "q1": {"z": 1.0}})
    b = named({"q3": {"w": 1.0}, "q2": {"y": 9.0, "v": 2.0}})
    fused = fuse([a, b])
    assert list(fused.query_ids) == ["q1", "q2", "q3"]
    assert fused.row("q2") == [
        ("y", float(Fraction(1, 62) + Fraction(1, 61))),
        ("x", 1 / 61),
        ("v", 1 / 62),
    ]
    assert fused.row("q1") == [("z", 1 / 61)]
    assert rows(fuse([b, a])) == rows(fused)


def test_a_row_of_equal_scores_counts_one_and_missing_counts_nothing() -> None:
    a = Ranking.from_arrays([[0, 1]], [[5.0, 5.0]], n_docs=4)
    b = Ranking.from_arrays([[2, 1, 3]], [[9.0, 4.0, -1.0]], n_docs=4)
    for normalize in ("minmax", "zscore"):
        score = dict(fuse([a, b], method="combsum", normalize=normalize).row(0))  # type: ignore[arg-type]
        assert (score[0], score[3]) == (1.0, 0.0)


def test_huge_scores_do_not_overflow_when_normalised() -> None:
    a = Ranking.from_arrays([[0, 1, 2]], [[1.7e308, 0.0, -1.7e308]])
    for normalize in ("minmax", "zscore"):
        fused = fuse([a, a], method="combmnz", normalize=normalize)  # type: ignore[arg-type]
        assert [doc for doc, _ in fused.row(0)] == [0, 1, 2]
    with pytest.raises(ValueRangeError, match="A fused score exceeds float64"):
        fuse([Ranking.from_arrays([[0]], [[1.7e308]])] * 2, method="combsum", normalize=None)


def test_raw_scores_are_added_and_negative_ones_refused() -> None:
    a = Ranking.from_arrays([[0, 1]], [[3.0, 1.0]], n_docs=3)
    b = Ranking.from_arrays([[1, 2]], [[4.0, 2.0]], n_docs=3)
    fused = fuse([a, b], method="combmnz", normalize=None)
    assert fused.row(0) == [(1, 10.0), (0, 3.0), (2, 2.0)]
    bad = Ranking.from_arrays([[1, 2]], [[4.0, -2.0]], n_docs=3)
    with pytest.raises(ValueRangeError, match=r"Query 0 has the score -2.*minmax"):
        fuse([a, bad], method="combsum", normalize=None)


def test_depth_cuts_the_result() -> None:
    lists = random_lists(5)
    assert rows(fuse(lists, depth=3)) == [row[:3] for row in rows(fuse(lists))]


def test_one_list_keeps_its_order() -> None:
    (one,) = random_lists(6, n_lists=1)
    assert [[d for d, _ in row] for row in rows(fuse([one]))] == [
        [d for d, _ in row] for row in rows(one)
    ]


A = Ranking.from_arrays([[0, 1]])


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (([],), UsageError),
        ((A,), None),
        ((["run.txt"],), StorageError),
        (([A], "borda"), UsageError),
        (([A], "combsum", "max"), UsageError),
        (([A], "rrf", None, [1, 2]), MismatchError),
        (([A], "rrf", None, [0]), ValueRangeError),
        (([A], "rrf", None, [math.nan]), ValueRangeError),
        (([A], "rrf", None, ["1"]), ValueRangeError),
        (([A], "rrf", None, None, -1), UsageError),
        (([A], "rrf", None, None, 2.5), UsageError),
        (([A], "rrf", None, None, True), UsageError),
        (([A], "rrf", None, None, 60, 0), UsageError),
    ],
)
def test_bad_requests_are_named(arguments: tuple[Any, ...], kind: Any) -> None:
    names = ("method", "normalize", "weights", "rrf_k", "depth")
    options = dict(zip(names, arguments[1:], strict=False))
    if kind is None:
        assert rows(fuse(arguments[0], **options)) == rows(fuse([arguments[0]]))
        return
    with pytest.raises(kind):
        fuse(arguments[0], **options)


def test_numbered_rows_do_not_mix_with_ids() -> None:
    with pytest.raises(AssayError, match="Numbered rows"):
        fuse([A, named({"q": {"x": 1.0}})])
