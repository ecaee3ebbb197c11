"""Runs whose queries are not independent: intervals and comparisons draw whole groups."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import assay.store
from assay import Conventions, Ids, Scores, compare, parse_many
from assay.errors import UsageError
from assay.report import make_report
from assay.stats import difference_interval, intervals, inverted_interval
from assay.stats.confidence import test_units as paired_by_units
from tests.web.samples import Client

MEASURES = ("AP", "Success@1")


def scores_of(seed: int, n_scenes: int = 9, column: str = "scene") -> Scores:
    """Values that hang on their scene far more than on their query; some are not defined."""
    rng = np.random.default_rng(seed)
    scene = np.sort(rng.integers(0, n_scenes, 200))
    scene[:n_scenes] = np.arange(n_scenes)
    values = np.clip(rng.random(n_scenes)[scene] + rng.normal(0, 0.05, (2, 200)), 0, 1)
    values[:, rng.random(200) < 0.1] = np.nan
    return Scores(
        parse_many(MEASURES),
        Ids.of([f"q{i:03}" for i in range(200)], "query"),
        values,
        tied=np.zeros((2, 200), bool),
        missing=np.zeros(200, bool),
        conventions=Conventions(empty="skip"),
        groups={column: np.asarray([f"s{i}" for i in scene], np.str_)},
    )


def moved(scores: Scores, by: float, seed: int = 5) -> Scores:
    """A better system: scenes gain differently."""
    labels = np.unique(next(iter(scores.groups.values())), return_inverse=True)[1]
    gains = np.random.default_rng(seed).normal(by, 0.05, labels.max() + 1)[labels]
    return replace(scores, values=np.clip(scores.values + gains, 0, 1))


@pytest.mark.parametrize("n_scenes", [9, 4])
def test_stored_intervals_draw_whole_groups(place, n_scenes):
    scores = scores_of(1, n_scenes)
    bounds = [(0.0, 1.0)] * len(scores.values)
    expected = intervals(scores.values, clusters=scores.groups["scene"], bounds=bounds)
    alone = intervals(scores.values, bounds=bounds)
    with assay.store.open(place) as store:
        run = store.save(scores, "a", clusters="scene")
        with store.start_run("b") as running:
            running.set_result(scores, clusters="scene")
        runs = [run, store.run(2)]
        plain = store.save(scores, "c")
    for own in runs:
        assert own.clusters == "scene"
        for name, one, single in zip(MEASURES, expected, alone, strict=True):
            found = own.aggregate(name)
            assert (found.low, found.high) == (one.low, one.high)
            assert (found.method, found.clusters) == ("score", "scene")
            assert found.to_dict()["method"] == "score by scene"
            assert found.high - found.low > 3 * (single.high - single.low)
    assert plain.clusters == ""
    assert (plain.aggregate("AP").method, plain.aggregate("AP").clusters) == ("score", "")


def test_the_column_travels_with_an_exported_run(tmp_path):
    hostile = "scène by 'day'; --"
    with assay.store.open(tmp_path / "s.db") as store:
        saved = store.save(scores_of(2, column=hostile), "a", clusters=hostile)
        store.export(tmp_path / "runs.json")
    with assay.store.open(tmp_path / "t.db") as other:
        (found,) = other.load(tmp_path / "runs.json")
        assert found.clusters == hostile
        assert found.aggregates == saved.aggregates


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        ("scenes", r"no group column 'scenes' to resample by\. Did you mean scene\?"),
        ("x", "They have: 'scene'"),
        (3, "clusters must be the name of one group column"),
    ],
)
def test_a_column_that_is_not_there_is_refused(tmp_path, clusters, words):
    with assay.store.open(tmp_path / "s.db") as store:
        with pytest.raises(UsageError, match=words):
            store.save(scores_of(1), "a", clusters=clusters)
        assert len(store) == 0


def test_comparisons_of_stored_runs_draw_the_same_groups(tmp_path, assay):
    """The command, the dashboard, its leaderboard and a report say what `compare` says."""
    old, new = scores_of(3), moved(scores_of(3), 0.03)
    expected = compare(new, old, names=["new", "old"], measures="AP", by="scene")
    with assay_store(tmp_path) as store:
        runs = [
            store.save(one, name, dataset="d", clusters="scene")
            for one, name in ((new, "new"), (old, "old"))
        ]
        report = make_report(runs)
        plain = make_report(runs, by=None, resamples=200)
    assert report.comparison is not None
    pair = report.comparison.pairs_on("AP")[0]
    assert pair.interval == expected.pairs[0].interval
    assert plain.settings.by == "scene"
    printed = assay("runs", "compare", 1, 2, "-m", "AP", "--store", tmp_path / "s.db", "--json")
    assert json.loads(printed.out)["measures"] == expected.to_dict()["measures"]
    ask = Client(tmp_path / "s.db")
    page = ask("/compare.json?run=1&run=2&measure=AP").json
    assert page["comparison"]["measures"] == expected.to_dict()["measures"]
    assert (
        "whole groups by scene"
        in ask("/leaderboard.json?dataset=d&measure=AP").json["letters_note"]
    )


def assay_store(folder):
    return assay.store.open(folder / "s.db")


def test_trends_draw_the_same_groups(tmp_path):
    old, new = scores_of(3), moved(scores_of(3), 0.03)
    with assay_store(tmp_path) as store:
        for one in (old, new):
            store.save(one, "system", dataset="d", clusters="scene")
    change = Client(tmp_path / "s.db")("/trends.json?measure=AP").json["runs"][1]["change"]
    groups = old.groups["scene"]
    test = paired_by_units(new["AP"], old["AP"], groups)
    expected = inverted_interval(
        new["AP"], old["AP"], test, level=0.05, separate=bool(test.p <= 0.05), clusters=groups
    )
    single = difference_interval(new["AP"], old["AP"], method="t")
    assert (change["low"], change["high"]) == pytest.approx((expected.low, expected.high))
    assert change["high"] - change["low"] > 2 * (single.high - single.low)


def test_few_groups_still_have_intervals_when_compared(tmp_path):
    old, new = scores_of(3, 5), moved(scores_of(3, 5), 0.03)
    with assay_store(tmp_path) as store:
        found = make_report(
            [store.save(one, name, clusters="scene") for one, name in ((new, "new"), (old, "old"))]
        )
    assert found.comparison is not None
    (pair,) = found.comparison.pairs_on("AP")
    assert "too few groups (5): even a clean sweep gives p ≥ 0.0625" in pair.untestable
    assert np.isnan(pair.interval.low)
    assert all(one.mean.low < one.mean.high for one in found.comparison.standings_on("AP"))
