"""Trends: what is called worse is worse by the statistics of the library."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import assay.store
from assay import Conventions, Ids
from assay.stats import inverted_interval, paired_test
from tests.comparison.made_scores import made_scores
from tests.web.samples import Client


def changes_of(place, scores) -> list[dict]:
    with assay.store.open(place) as store:
        for one in scores:
            store.save(one, "system", dataset="d")
    found = Client(place)("/trends.json?measure=AP").json
    assert [one["id"] for one in found["runs"]] == list(range(1, len(scores) + 1))
    return [one["change"] for one in found["runs"]]


def test_changes_are_paired_differences(tmp_path):
    nights = [made_scores(i, skill=skill) for i, skill in enumerate((0.5, 0.51, 0.4, 0.4, 0.55))]
    found = changes_of(tmp_path / "s.db", nights)
    assert found[0]["difference"] is None
    for change, old, new in zip(found[1:], nights, nights[1:], strict=False):
        test = paired_test(new["AP"], old["AP"])
        expected = inverted_interval(
            new["AP"], old["AP"], test, level=0.05, separate=bool(test.p <= 0.05)
        )
        assert change["paired"]
        for key, value in {
            "difference": expected.estimate,
            "low": expected.low,
            "high": expected.high,
        }.items():
            assert change[key] == pytest.approx(value, rel=1e-12)
        kind = "worse" if expected.high < 0 else "better" if expected.low > 0 else "same"
        assert (kind != "same") == (test.p <= 0.05)
        assert change["kind"] == kind
    assert [change["kind"] for change in found][2] == "worse"


def test_regressions_are_named_in_words_and_marked(demo, client: Client):
    data = client("/trends.json?dataset=cranfield").json
    assert data["regressions"] == [7]
    page = client("/trends?dataset=cranfield").text
    assert "Regression in run 7" in page
    assert '<td class="change worse short">worse</td>' in page
    assert 'class="worse">' in page  # in the chart, as a triangle that points down
    assert "no significant change" in page


def test_other_queries_are_not_paired(tmp_path):
    first = made_scores(1, skill=0.8)
    second = replace(
        made_scores(2, skill=0.2), query_ids=Ids.of([f"x{i:03}" for i in range(60)], "query")
    )
    change = changes_of(tmp_path / "s.db", [first, second])[1]
    assert not change["paired"]
    assert change["kind"] == "worse"
    assert change["low"] is None


def test_other_conventions_are_not_compared(tmp_path):
    first = made_scores(1, skill=0.8)
    second = replace(made_scores(2, skill=0.2), conventions=Conventions(depth=7))
    change = changes_of(tmp_path / "s.db", [first, second])[1]
    assert (change["kind"], change["words"]) == ("same", "other conventions")
    page = Client(tmp_path / "s.db")("/trends?measure=AP").text
    assert "not comparable with the previous run (other conventions)." in page


def test_equal_runs_are_called_equal(tmp_path):
    change = changes_of(tmp_path / "s.db", [made_scores(1), made_scores(1)])[1]
    assert (change["kind"], change["difference"], change["paired"]) == ("same", 0.0, True)
    assert change["words"] == "the same values"
    page = Client(tmp_path / "s.db")("/trends?measure=AP").text
    assert "on AP: the same values as the previous run. No regression." in page


@pytest.mark.parametrize("rule", ["zero", "skip"])
def test_empty_and_missing_queries_count_as_the_conventions_say(tmp_path, rule):
    nights = []
    for seed, skill in enumerate((0.6, 0.4)):
        scores = made_scores(seed, skill=skill)
        values = np.array(scores.values)
        values[:, :7] = np.nan
        missing = np.zeros(60, bool)
        missing[7 + seed : 12] = True
        nights.append(
            replace(
                scores,
                values=values,
                missing=missing,
                conventions=Conventions().replace(empty=rule, missing=rule),
            )
        )
    change = changes_of(tmp_path / "s.db", nights)[1]
    difference = nights[1].mean()["AP"] - nights[0].mean()["AP"]
    if rule == "zero":
        assert change["difference"] == pytest.approx(difference, rel=1e-12)
    kept = ~(nights[0].missing | nights[1].missing | np.isnan(nights[0]["AP"]))
    if rule == "skip":
        both = (nights[1]["AP"] - nights[0]["AP"])[kept]
        assert change["difference"] == pytest.approx(both.mean(), rel=1e-12)


def test_names_that_changed_with_the_dataset_fall_back(client: Client):
    """A form sends the name and measure of the last dataset with the new one."""
    data = client("/trends.json?dataset=demo&name=nightly&measure=RBP").json
    assert data["name"] in ("dense", "lexical", "coarse")
    assert data["measure"] == "nDCG@10"
