"""Weights by cross-validation: against plain loops, and that no query has a say in its own."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from assay.core.conventions import Conventions
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError
from assay.io.formats import as_judgments, as_ranking
from assay.scoring.evaluate import evaluate
from assay.search.fusion import fuse, tune_fusion

Run = dict[str, dict[str, float]]


def made(seed: int, n_queries: int, signals: tuple[float, ...]) -> tuple[list[Run], Any]:
    """Runs of 30 documents, of which some hear more of the truth than others."""
    rng = np.random.default_rng(seed)
    truth = (rng.random((n_queries, 30)) < 0.1).astype(float)
    truth[:, 0] = 1
    rows = [signal * truth + rng.normal(size=truth.shape) for signal in signals]

    def named(values: Any) -> Any:
        return {
            f"q{q:02}": {f"d{d:02}": value for d, value in enumerate(row)}
            for q, row in enumerate(values.tolist())
        }

    return [named(scores) for scores in rows], named(truth.astype(int))


def as_rankings(runs: list[Run]) -> list[Ranking]:
    return [as_ranking(run, Conventions()) for run in runs]


def plain_fusion(rows: list[dict[str, float]], weights: tuple[float, ...]) -> list[str]:
    total: dict[str, float] = {}
    for row, weight in zip(rows, weights, strict=True):
        low, high = min(row.values()), max(row.values())
        for doc, score in row.items():
            total[doc] = total.get(doc, 0.0) + weight * (score - low) / (high - low)
    return sorted(sorted(total, reverse=True), key=lambda doc: -total[doc])


def plain_ndcg(docs: list[str], grades: dict[str, int]) -> float:
    gain = sum(grades[doc] / math.log2(i + 2) for i, doc in enumerate(docs[:10]))
    return gain / sum(1 / math.log2(i + 2) for i in range(min(10, sum(grades.values()))))


@pytest.mark.parametrize("signals", [(0.4, 2.0), (1.5, 0.2, 1.0)])
def test_against_plain_loops(signals: tuple[float, ...]) -> None:
    runs, qrels = made(1, 23, signals)
    judged, rankings = as_judgments(qrels), as_rankings(runs)
    ranking, tuning = tune_fusion(rankings, judged, "nDCG@10", folds=4, seed=9)
    steps = 20 if len(signals) == 2 else 10
    grid = [
        tuple(part / steps for part in parts)
        for parts in product(range(1, steps), repeat=len(signals))
        if sum(parts) == steps
    ]
    queries = sorted(qrels)
    values = {
        weights: [
            plain_ndcg(plain_fusion([run[q] for run in runs], weights), qrels[q]) for q in queries
        ]
        for weights in grid
    }
    drawn = np.random.default_rng(9).permutation(len(queries))
    fold = {int(at): number % 4 for number, at in enumerate(drawn)}
    for number in range(4):
        others = {
            weights: math.fsum(v for at, v in enumerate(found) if fold[at] != number)
            for weights, found in values.items()
        }
        assert others[tuning.weights[number]] == pytest.approx(max(others.values()), abs=1e-9)
    held_out = []
    for at, query in enumerate(queries):
        weights = tuning.weights[fold[at]]
        docs = [str(doc) for doc, _ in ranking.row(query)]
        assert docs == plain_fusion([run[query] for run in runs], weights)
        held_out.append(values[weights][at])
    assert tuning.held_out == pytest.approx(np.mean(held_out))
    assert evaluate(ranking, qrels, "nDCG@10").values[0] == pytest.approx(held_out)
    assert tuning.in_sample == pytest.approx(max(np.mean(v) for v in values.values()))


def test_a_query_has_no_say_in_its_own_weights() -> None:
    runs, qrels = made(2, 20, (1.0, 1.0))
    rankings = as_rankings(runs)
    before, first = tune_fusion(rankings, as_judgments(qrels), "nDCG@10", folds=20)
    moved = 0
    for query in qrels:
        other = {**qrels, query: {doc: 1 - grade for doc, grade in qrels[query].items()}}
        after, second = tune_fusion(rankings, as_judgments(other), "nDCG@10", folds=20)
        assert after.row(query) == before.row(query)
        moved += (second.overall, second.weights) != (first.overall, first.weights)
    assert moved, "it has one in those of others"


def test_a_group_has_no_say_in_its_own_weights() -> None:
    runs, qrels = made(2, 20, (1.0, 1.0))
    groups = {query: f"g{number // 4}" for number, query in enumerate(qrels)}
    rankings, how = as_rankings(runs), {"folds": 5, "clusters": groups}
    before, first = tune_fusion(rankings, as_judgments(qrels), "nDCG@10", **how)
    moved = 0
    for query in qrels:
        other = {**qrels, query: {doc: 1 - grade for doc, grade in qrels[query].items()}}
        after, second = tune_fusion(rankings, as_judgments(other), "nDCG@10", **how)
        mates = [one for one in qrels if groups[one] == groups[query]]
        assert all(after.row(one) == before.row(one) for one in mates)
        moved += (second.overall, second.weights) != (first.overall, first.weights)
    assert moved, "it has one in those of other groups"
    assert "groups=5" in before.settings["fusion"]
    own = dict(zip(qrels, qrels, strict=True))
    alone = tune_fusion(rankings, as_judgments(qrels), "nDCG@10", folds=20, clusters=own)
    assert alone[1] == tune_fusion(rankings, as_judgments(qrels), "nDCG@10", folds=20)[1]


def test_noise_is_not_tuned_to_advantage() -> None:
    gains, flattered = [], []
    for seed in range(40):
        runs, qrels = made(100 + seed, 30, (0.0, 0.0))
        rankings = as_rankings(runs)
        plain = evaluate(fuse(rankings, method="combsum"), qrels, "nDCG@10").mean()["nDCG@10"]
        _, tuning = tune_fusion(rankings, as_judgments(qrels), "nDCG@10")
        gains.append(tuning.held_out - plain)
        flattered.append(tuning.in_sample - plain)
    spread = float(np.std(gains) / np.sqrt(len(gains)))
    assert np.mean(gains) < 2 * spread, "held-out values are no better than untuned ones"
    assert np.mean(flattered) > 4 * spread, "in-sample values are"


def test_what_does_not_differ_is_left_equal_and_a_better_list_weighs_more() -> None:
    runs, qrels = made(3, 12, (1.0,))
    same = as_rankings([runs[0], runs[0]])
    _, tuning = tune_fusion(same, as_judgments(qrels), "nDCG@10", folds=3)
    assert {*tuning.weights, tuning.overall} == {(0.5, 0.5)}
    runs, qrels = made(4, 60, (0.0, 3.0))
    _, tuning = tune_fusion(as_rankings(runs), as_judgments(qrels), "nDCG@10")
    assert all(second > 0.7 for _, second in tuning.weights)


def test_the_seed_deals_and_the_order_of_lines_does_not_matter() -> None:
    runs, qrels = made(5, 17, (1.0, 0.8))
    backwards = [dict(reversed(run.items())) for run in runs]
    judged = as_judgments(qrels)
    one, tuning = tune_fusion(as_rankings(runs), judged, "nDCG@10", seed=1)
    other, again = tune_fusion(as_rankings(backwards), judged, "nDCG@10", seed=1)
    assert again == tuning
    assert all(one.row(query) == other.row(query) for query in qrels)
    assert "tune=5-fold,measure=nDCG@10,seed=1" in one.settings["fusion"]
    found = {tune_fusion(as_rankings(runs), judged, "nDCG@10", seed=s)[1].weights for s in range(6)}
    assert len(found) > 1


def test_what_cannot_be_tuned() -> None:
    runs, qrels = made(6, 4, (1.0, 1.0))
    judged: Judgments = as_judgments(qrels)
    for folds in (1, 5):
        with pytest.raises(
            UsageError, match=r"Tuning needs 2 to 4 folds \(queries with judgments\)"
        ):
            tune_fusion(as_rankings(runs), judged, "nDCG@10", folds=folds)
    groups = dict.fromkeys(qrels, "g")
    with pytest.raises(
        UsageError, match=r"Tuning needs 2 to 1 folds \(groups of queries with judgments\)"
    ):
        tune_fusion(as_rankings(runs), judged, "nDCG@10", folds=2, clusters=groups)
    with pytest.raises(
        MismatchError, match="clusters lacks the queries 'q00', 'q01', 'q02', 'q03'"
    ):
        tune_fusion(as_rankings(runs), judged, "nDCG@10", folds=2, clusters={})
    with pytest.raises(UsageError, match="2 to 5 models, found 1"):
        tune_fusion(as_rankings(runs[:1]), judged, "nDCG@10")
