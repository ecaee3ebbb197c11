"""Seeds: mean, spread, intervals and tests, and which test to believe."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import MismatchError, UsageError
from assay.prediction import evaluate_predictions
from assay.prediction.result import ADVICE, compare_models, compare_seed_means
from assay.stats import welch_test


def result(strength, seed, n=120):
    targets = np.random.default_rng(0).integers(0, 20, n)
    logits = np.random.default_rng(seed).standard_normal((n, 20))
    logits[np.arange(n), targets] += strength
    return evaluate_predictions(logits, targets, measures=["Acc@1", "RR"])


MODELS = {"a": [result(2.0, s) for s in (1, 2, 3)], "b": [result(1.0, s) for s in (4, 5, 6)]}


def test_means_spreads_and_tests():
    report = compare_models(MODELS)
    means = {name: [one.mean()["RR"] for one in seeds] for name, seeds in MODELS.items()}
    row = next(row for row in report.rows if (row.model, row.measure) == ("a", "RR"))
    assert row.mean == pytest.approx(np.mean(means["a"]))
    assert row.sd == pytest.approx(np.std(means["a"], ddof=1))
    assert row.interval.method == "t"
    assert row.interval.low < row.mean < row.interval.high
    welch = next(row for row in report.welch if row.measure == "RR")
    assert welch.test.p == welch_test(means["a"], means["b"]).p
    assert welch.difference == pytest.approx(np.mean(means["a"]) - np.mean(means["b"]))


def test_the_paired_test_is_over_samples_and_preferred():
    report = compare_models(MODELS)
    assert report.paired.n_queries == 120
    assert report.paired.pair("a", "b", measure="RR").winner == "a"
    assert report.advice == ADVICE
    assert "Prefer the paired test" in ADVICE
    averaged = np.mean([one.scores["RR"] for one in MODELS["a"]], axis=0)
    standing = next(s for s in report.paired.standings_on("RR") if s.name == "a")
    assert standing.mean.estimate == pytest.approx(averaged.mean())


def test_one_seed_has_no_spread_and_no_invented_number():
    report = compare_models({name: seeds[:1] for name, seeds in MODELS.items()})
    assert np.isnan(report.rows[0].sd)
    assert np.isnan(report.welch[0].test.p)
    assert "too few" in report.welch[0].test.note
    assert report.to_dict()["models"][0]["sd"] is None


def test_means_alone():
    report = compare_seed_means({"a": {"RR": [0.4, 0.5, 0.45]}, "b": {"RR": [0.4, 0.5, 0.45]}})
    assert report.welch[0].test.p == 1
    assert report.paired is None
    assert "Result files hold means only" in report.advice


def test_seeds_of_other_samples_are_refused():
    with pytest.raises(MismatchError, match="Seed 2 of 'a'"):
        compare_models({"a": [result(1, 1), result(1, 2, n=60)]})
    with pytest.raises(UsageError, match="no results"):
        compare_models({"a": []})


def test_other_targets_are_other_samples():
    targets = np.random.default_rng(0).integers(0, 20, 120)
    targets[7] = (targets[7] + 1) % 20
    other = evaluate_predictions(np.zeros((120, 20)), targets, measures=["Acc@1", "RR"])
    with pytest.raises(MismatchError, match="first in sample 7"):
        compare_models({"a": MODELS["a"], "b": [other]})
