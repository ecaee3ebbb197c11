"""Estimates: unbiased by enumeration, exact where all is labelled, covered by simulation."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import assay
from assay.errors import MeasureError, MismatchError, UsageError
from assay.judging import DrawnLabels, Label, LabelSet, estimate_from_labels, make_pool
from assay.judging.estimate import sequence_half_width
from tests.judging.samples import GRADES, label_all, make_runs


@pytest.mark.parametrize("tuning", [0.0, 0.6, 1.0])
def test_every_draw_averages_to_the_truth(tuning):
    """All 2^8 draws, each with its probability: an independent sum by hand."""
    rng = np.random.default_rng(4)
    n, rows = 8, np.array([0, 0, 0, 1, 1, 2, 2, 2])
    weights, machine = rng.normal(size=n), rng.random(n)
    gains, chances = rng.integers(0, 2, n).astype(float), rng.uniform(0.2, 1.0, n)
    expected, spread = np.zeros(3), 0.0
    truth = np.bincount(rows, weights * gains, minlength=3)
    for drawn in product([False, True], repeat=n):
        mask = np.array(drawn)
        likely = float(np.prod(np.where(mask, chances, 1 - chances)))
        sample = DrawnLabels(rows, 3, weights, chances, mask, np.where(mask, gains, 0.0), machine)
        values = sample.values(tuning)
        expected += likely * values
        spread += likely * sample.label_variance(tuning)
    assert expected == pytest.approx(truth, abs=1e-12)
    # The variance that the draw adds is Σ w² (y − λf)² (1 − π) / π, over n².
    formula = weights**2 * (gains - tuning * machine) ** 2 * (1 - chances) / chances
    assert spread == pytest.approx(formula.sum() / 9, rel=1e-12)


@pytest.mark.parametrize(("measure", "name"), [("P@4", "P@4"), ("RBP(p=0.7)", "RBP(p=0.7)")])
@pytest.mark.parametrize("method", ["all", "drawn"])
def test_all_labels_give_the_number_of_full_judgments(measure, name, method):
    runs = make_runs(3)
    pool = make_pool(runs, 10_000, measure=measure, aim="means", method=method)
    labels = label_all(pool)
    assert len(labels) == len(pool)
    result = estimate_from_labels(runs, pool, labels, measures=[measure], means=True)
    qrels = {}
    for query, doc in pool.names:
        qrels.setdefault(query, {})[doc] = GRADES[query, doc]
    for each in result.estimates:
        scores = assay.evaluate(runs[each.a], qrels, name, conventions="trec_eval")
        values = dict(zip(scores.query_ids, scores.values[0], strict=True))
        mean = np.nansum([values[query] for query in runs[each.a]]) / len(runs[each.a])
        assert each.interval.estimate == pytest.approx(mean, abs=1e-12)


def test_a_difference_is_that_of_the_means_and_dcg_is_by_hand():
    runs = make_runs(2)
    pool = make_pool(runs, 10_000, measure="DCG@3", aim="means")
    labels = label_all(pool)
    means = estimate_from_labels(runs, pool, labels, means=True).estimates
    difference = estimate_from_labels(runs, pool, labels).estimates[0]
    by_hand = [
        np.mean(
            [
                sum(GRADES[q, doc] / math.log2(rank + 1) for rank, doc in enumerate(docs[:3], 1))
                for q, docs in run.items()
            ]
        )
        for run in runs.values()
    ]
    assert [each.interval.estimate for each in means] == pytest.approx(by_hand, abs=1e-12)
    expected = by_hand[0] - by_hand[1]
    assert difference.interval.estimate == pytest.approx(expected, abs=1e-12)


def test_an_extended_pool_that_is_labelled_in_part_stays_unbiased():
    """Mean over many seeds: old stage labelled whole, the new one by half."""
    runs = make_runs(3, n_queries=15)
    pair = {name: runs[name] for name in ("s0", "s1")}
    truth = estimate_from_labels(
        pair, full := make_pool(runs, 10_000, aim="means"), label_all(full)
    ).estimates[0]
    errors = []
    for seed in range(60):
        pool = make_pool(runs, 40, extend=make_pool(pair, 30, seed=seed))
        places = pool.order
        old = [place for place in places if pool.stages[place] == 1]
        new = [place for place in places if pool.stages[place] == 2]
        names = [pool.names[place] for place in (*old, *new[: len(new) // 2])]
        labels = LabelSet(tuple(Label(*name, GRADES[name]) for name in names))
        each = estimate_from_labels(pair, pool, labels).estimates[0]
        errors.append(each.interval.estimate - truth.interval.estimate)
    standard_error = np.std(errors) / math.sqrt(len(errors))
    assert abs(np.mean(errors)) < 3.5 * standard_error


def test_a_judge_narrows_the_interval_and_a_bad_one_costs_nothing():
    runs = make_runs(2, n_queries=60)
    pool = make_pool(runs, 120, measure="P@4")
    human, truth = label_all(pool), label_all(pool, drawn=False, kind="machine", by="m")
    alone = estimate_from_labels(runs, pool, human).estimates[0]
    helped = estimate_from_labels(runs, pool, human, machine=truth).estimates[0]
    assert helped.tuning == 1.0
    assert helped.interval.half_width < 0.8 * alone.interval.half_width
    turned = LabelSet(
        tuple(Label(a.query, a.doc, 3 * (a.grade == 0), "m", "machine") for a in truth.labels)
    )
    hurt = estimate_from_labels(runs, pool, human, machine=turned).estimates[0]
    assert hurt.tuning == 0.0
    assert hurt.interval == alone.interval
    result = estimate_from_labels(runs, pool, human, machine=truth)
    assert result.counts["machine"] == len(pool)
    assert f"machine:{len(pool)} by m" in result.signature
    assert f"human:{len(human)} of {len(pool)} pairs" in result.signature


def test_tuning_is_what_makes_the_spread_of_the_draw_smallest():
    rng = np.random.default_rng(2)
    n = 400
    weights, chances = rng.normal(size=n), rng.uniform(0.05, 1, n)
    gains = rng.integers(0, 2, n).astype(float)
    machine = np.clip(0.5 * gains + rng.random(n) * 0.6, 0, 1)
    labelled = rng.random(n) < chances
    rows = np.arange(n) // 8
    kept = np.where(labelled, gains, 0.0)
    sample = DrawnLabels(rows, 50, weights, chances, labelled, kept, machine)
    best = min(np.linspace(0, 1, 1001), key=sample.label_variance)
    assert sample.tuning() == pytest.approx(best, abs=0.001)


def test_check_values_of_the_confidence_sequence():
    """drconfseq: σ = 1, α = .05, t = t_opt = 50 and 200."""
    assert sequence_half_width(1 / 50, 1 / 50, 0.05) == pytest.approx(0.42923, abs=5e-6)
    assert sequence_half_width(1 / 200, 1 / 200, 0.05) == pytest.approx(0.21462, abs=5e-6)
    assert sequence_half_width(0.0, 1.0, 0.05) == 0.0


def test_labels_needed_come_from_the_design():
    rng = np.random.default_rng(3)
    n = 2000
    weights, chances = rng.normal(size=n), np.full(n, 0.1)
    gains = rng.integers(0, 2, n).astype(float)
    rows, nothing = np.arange(n) // 20, np.zeros(n)
    labelled = rng.random(n) < chances
    sample = DrawnLabels(rows, 100, weights, chances, labelled, gains * labelled, nothing)
    half = sample.estimate()[0].half_width
    assert sample.labels_needed(half * 1.5) == 0
    assert math.isinf(sample.labels_needed(half / 100))
    more = sample.labels_needed(half / 1.5)
    assert 0 < more < n
    wider = sample._replace(
        chances=(grown := np.full(n, 0.1 + more / n)), labelled=(drawn := rng.random(n) < grown)
    )._replace(gains=gains * drawn)
    assert wider.estimate()[0].half_width == pytest.approx(half / 1.5, rel=0.15)


def test_the_sequence_covers_at_all_times_together():
    """Looking after every tenth label; the plain interval would be left far more often."""
    rng = np.random.default_rng(7)
    left = plain_left = 0
    n_queries, per_query = 60, 6
    for _ in range(80):
        weights = rng.normal(size=n_queries * per_query)
        gains = (rng.random(len(weights)) < 0.4).astype(float)
        rows = np.repeat(np.arange(n_queries), per_query)
        order = rng.permutation(len(weights))
        outside = plain = False
        for t in range(30, len(order) // 2, 10):
            labelled = np.zeros(len(order), bool)
            labelled[order[:t]] = True
            chances = np.full(len(order), t / len(order))
            sample = DrawnLabels(
                rows, n_queries, weights, chances, labelled, gains * labelled, 0.0 * gains
            )
            sure, ordinary = sample.sequence(), sample.estimate()[0]
            outside |= sure is not None and 0.0 not in sure
            plain |= 0.0 not in ordinary
        left, plain_left = left + outside, plain_left + plain
    assert left / 80 <= 0.05
    assert plain_left > 2 * left


def test_what_does_not_belong_together_is_refused():
    runs = make_runs(3)
    two = {name: runs[name] for name in ("s0", "s1")}
    pool = make_pool(two, 30)
    labels = label_all(pool)
    with pytest.raises(
        MismatchError,
        match="with 'assay pool --extend', or draw a pool with 'assay pool --aim means'",
    ):
        estimate_from_labels(runs, pool, labels)
    with pytest.raises(MismatchError, match="The pool aims at differences, not means"):
        estimate_from_labels(two, pool, labels, means=True)
    with pytest.raises(MeasureError, match="needs labels of all pairs"):
        make_pool(two, 30, measure="nDCG@10")
    with pytest.raises(MeasureError, match="Unknown measure"):
        estimate_from_labels(two, pool, labels, measures=["nDGC@10"])
    with pytest.raises(UsageError, match="A comparison needs two"):
        estimate_from_labels({"s0": runs["s0"]}, pool, labels)
    with pytest.raises(MismatchError, match="All 24 labels are machine labels"):
        estimate_from_labels(two, pool, label_all(pool, kind="machine"))
    with pytest.raises(MismatchError, match="are all human"):
        estimate_from_labels(two, pool, labels, machine=labels)
    with pytest.raises(MismatchError, match="No drawn pair is labelled"):
        estimate_from_labels(two, pool, LabelSet(()))
    more = {**two, "s1": {**runs["s1"], "q99": ["x"]}}
    with pytest.raises(MismatchError, match="1 queries of s0 and s1 are not pooled"):
        estimate_from_labels(more, pool, labels)


def test_a_stage_without_labels_is_named():
    runs = make_runs(3)
    first = make_pool({name: runs[name] for name in ("s0", "s1")}, 30)
    pool = make_pool(runs, 30, extend=first)
    with pytest.raises(MismatchError, match="and s2 belong to a stage without labels"):
        estimate_from_labels(runs, pool, label_all(first))


def test_few_labels_give_no_interval():
    runs = make_runs(2)
    pool = make_pool(runs, 30)
    none = LabelSet(tuple(Label(q, d, 0) for q, d in pool.names))
    each = estimate_from_labels(runs, pool, none).estimates[0]
    assert math.isnan(each.interval.low)
    assert "0 queries" in each.interval.note
    assert each.outcome == "undecided"
    assert "too few labels" in each.verdict()


def test_several_pairs_share_the_level():
    runs = make_runs(3, n_queries=40)
    pool = make_pool(runs, 200)
    labels = label_all(pool)
    together = estimate_from_labels(runs, pool, labels).estimates
    alone = estimate_from_labels(
        {name: runs[name] for name in ("s0", "s1")}, pool, labels
    ).estimates[0]
    assert len(together) == 3
    assert together[0].interval.half_width > 1.1 * alone.interval.half_width
    base = estimate_from_labels(runs, pool, labels, baseline="s2").estimates
    assert [(each.a, each.b) for each in base] == [("s0", "s2"), ("s1", "s2")]


@pytest.mark.parametrize("measure", ["nDCG@3", "AP", "AP@2", "R@2", "Rprec", "P(trunc=true)@3"])
@pytest.mark.parametrize("means", [True, False])
def test_other_measures_have_the_bounds_of_all_grades(measure, means):
    """Every grade of the scale for every pair without a label, scored one by one."""
    runs = {
        "a": {"q0": ["x", "y", "z"], "q1": ["v", "w"], "q2": ["x"]},
        "b": {"q0": ["z", "y"], "q1": ["w", "u", "v"], "q2": ["x"]},
    }
    pool = make_pool(runs, method="all", scale=[0, 1, 2])
    people = {("q0", "x"): 2, ("q0", "z"): 0, ("q1", "w"): 1}
    twice = (Label("q1", "v", 0, by="ada"), Label("q1", "v", 1, by="bob"))
    labels = LabelSet((*(Label(q, d, grade) for (q, d), grade in people.items()), *twice))
    result = estimate_from_labels(runs, pool, labels, measures=[measure], means=means)
    assert not result.estimates
    # A mean is over the grades of what its system retrieved, a difference over those of both.
    groups = [{name: run} for name, run in runs.items()] if means else [runs]
    columns = []
    for group in groups:
        retrieved = {(q, d) for run in group.values() for q, docs in run.items() for d in docs}
        holes, values = sorted(retrieved - people.keys()), []
        for grades in product([0, 1, 2], repeat=len(holes)):
            qrels = {}
            for (q, d), grade in {**people, **dict(zip(holes, grades, strict=True))}.items():
                qrels.setdefault(q, {})[d] = grade
            scores = [assay.evaluate(run, qrels, measure) for run in group.values()]
            first, *others = [each.mean()[measure] for each in scores]
            values.append(first - sum(others))
        columns.append(np.array(values))
    assert len(result.bounds) == len(columns)
    for each, column in zip(result.bounds, columns, strict=True):
        assert each.worst <= column.min() + 1e-12
        assert each.best >= column.max() - 1e-12
        if each.exact:
            assert (each.worst, each.best) == pytest.approx((column.min(), column.max()))
        assert each.exact == (means or measure == "nDCG@3")
        assert "over all grades of the" in each.verdict()
    assert any("has bounds only" in remark for remark in result.remarks)
    assert "1 pairs with disagreeing labels count as unlabelled" in result.remarks


def test_bounds_stand_beside_estimates_and_end_where_all_is_labelled():
    runs = make_runs(2)
    pool = make_pool(runs, method="all")
    result = estimate_from_labels(runs, pool, label_all(pool), measures=["P@4", "AP"])
    assert [each.measure for each in result.estimates] == ["P@4"]
    (ends,) = result.bounds
    assert ends.worst == pytest.approx(ends.best)
    assert ends.n_unjudged == 0
    (record,) = result.records()
    assert [number.average for number in record.aggregates][1] == "outer bounds"
    assert len(record.details["verdicts"]) == 2
