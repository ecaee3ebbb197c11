"""Scores: means, counts, merging, and how they show themselves."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from assay import Conventions, Scores, evaluate, judge_ranks, parse, preset, score
from assay.errors import (
    ConventionError,
    IdError,
    MeasureError,
    MismatchError,
    UsageError,
    ValueRangeError,
)

RUN = {"a": {"x": 2.0, "y": 1.0}, "b": {"y": 2.0, "x": 1.0}, "e": {"x": 1.0}, "extra": {"x": 1.0}}
QRELS = {"a": {"x": 1}, "b": {"x": 1}, "e": {"x": 0}, "m": {"x": 1}}
GROUPS = {"a": "one", "b": "two", "e": "two", "m": "three"}


def scores(measures="RR", **conventions) -> Scores:
    found = evaluate(RUN, QRELS, measures, conventions=preset("trec_eval").replace(**conventions))
    return found.with_groups(kind=GROUPS)


# Means


@pytest.mark.parametrize(
    ("empty", "missing", "wanted", "n"),
    [
        ("skip", "skip", 1.5 / 2, 2),
        ("zero", "skip", 1.5 / 3, 3),
        ("skip", "zero", 1.5 / 3, 3),
        ("zero", "zero", 1.5 / 4, 4),
    ],
)
def test_micro(empty, missing, wanted, n):
    for mean in (
        scores().mean(empty=empty, missing=missing),
        scores(empty=empty, missing=missing).mean(),
    ):
        assert mean["RR"] == wanted
        assert mean.average == "micro"
        counts = mean.counts["RR"]
        assert (counts.n, counts.empty, counts.missing) == (n, 1, 1)


@pytest.mark.parametrize(
    ("empty", "missing", "wanted", "left_out"),
    [
        ("skip", "skip", (1 + 0.5) / 2, 1),  # three holds only a missing query
        ("zero", "skip", (1 + 0.25) / 2, 1),
        ("skip", "zero", (1 + 0.5 + 0) / 3, 0),
        ("zero", "zero", (1 + 0.25 + 0) / 3, 0),
    ],
)
def test_macro(empty, missing, wanted, left_out):
    mean = scores().mean(by="kind", empty=empty, missing=missing)
    assert mean["RR"] == pytest.approx(wanted, abs=1e-15)
    assert (mean.average, mean.by) == ("macro", "kind")
    assert mean.counts["RR"].groups_left_out == left_out
    assert set(mean.groups) == {"one", "two", "three"}


def test_a_group_of_empty_queries_counts_zero_or_is_left_out():
    hits = judge_ranks([1, 0], has_target=[True, False])
    found = score(hits, "RR", conventions="keypoints").with_groups(scene=["s", "t"])
    assert found.mean(by="scene", empty="zero")["RR"] == 0.5
    skipped = found.mean(by="scene", empty="skip")
    assert skipped["RR"] == 1.0
    assert skipped.counts["RR"].groups_left_out == 1
    assert math.isnan(skipped.groups["t"]["RR"])


def test_weighted():
    mean = scores().mean(by="kind", empty="zero", weights={"one": 3, "two": 1, "three": 0})
    assert mean["RR"] == (3 * 1 + 0.25) / 4
    assert mean.average == "weighted"


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ({"one": 1}, MismatchError),
        ({"one": 1, "two": -1, "three": 1}, ValueRangeError),
        ({"one": 1, "two": math.nan, "three": 1}, ValueRangeError),
        ({"one": 1, "two": math.inf, "three": 1}, ValueRangeError),
    ],
)
def test_weights_are_checked(weights, error):
    with pytest.raises(error):
        scores().mean(by="kind", weights=weights)


def test_weights_without_groups_and_unknown_groups_are_refused():
    with pytest.raises(UsageError, match="by="):
        scores().mean(weights={"one": 1})
    with pytest.raises(UsageError, match="kind"):
        scores().mean(by="knd")


def test_errors_on_request():
    with pytest.raises(ValueRangeError, match="'e'"):
        scores().mean(empty="error")
    with pytest.raises(MismatchError, match="'m'"):
        scores().mean(missing="error")
    with pytest.raises(ConventionError, match="skip"):
        scores().mean(empty="skp")


def test_geometric_mean_and_sums():
    mean = scores(["GMAP", "num_ret", "num_rel"]).mean()
    assert mean["GMAP"] == pytest.approx((1 * 0.5 * 1e-5 * 1e-5) ** 0.25)
    assert (mean["num_ret"], mean["num_rel"]) == (5, 3)


def test_no_query_at_all():
    found = score(judge_ranks([]), ["RR", "num_ret"])
    mean = found.mean()
    assert math.isnan(mean["RR"])
    assert mean["num_ret"] == 0
    assert mean.counts["RR"].n == 0
    assert mean.counts["RR"].tied_share == 0
    assert "0 queries" in repr(found)
    assert found.to_dict()["measures"]["RR"]["mean"] is None


def test_a_mean_is_a_mapping_by_any_name():
    mean = scores(["RR", "P@1"]).mean()
    assert list(mean) == ["RR", "P@1"]
    assert len(mean) == 2
    assert mean["mrr"] == mean["recip_rank"] == mean[parse("RR")] == mean["RR"]
    assert "P@1" in mean
    assert "P@2" not in mean
    assert "garbage" not in mean
    assert mean.get("garbage") is None
    with pytest.raises(KeyError):
        mean["AP"]
    assert repr(mean).startswith("Mean(micro: RR=")


def test_means_do_not_depend_on_the_order_of_queries():
    rng = np.random.default_rng(0)
    values = rng.random(1001)
    run = {
        f"q{i}": {"a": 1.0, **{f"x{j}": 2.0 for j in range(int(v * 40))}}
        for i, v in enumerate(values)
    }
    qrels = {q: {"a": 1} for q in run}
    backwards = dict(reversed(run.items()))
    means = [evaluate(r, qrels, ["RR", "nDCG"]).mean() for r in (run, backwards)]
    assert means[0]["RR"] == means[1]["RR"]
    assert means[0]["nDCG"] == means[1]["nDCG"]
    one = evaluate(run, qrels, "nDCG")
    assert one.mean()["nDCG"] == math.fsum(one["nDCG"].tolist()) / len(run)


# Single values


def test_values_by_name():
    found = scores(["RR", "P@1"])
    np.testing.assert_array_equal(found["mrr"], [1.0, 0.5, np.nan, 0.0])
    assert list(found.query_ids) == ["a", "b", "e", "m"]
    assert found.missing.tolist() == [False, False, False, True]
    assert list(found.extra) == ["extra"]
    with pytest.raises(UsageError, match="RR"):
        found["AP"]
    with pytest.raises(MeasureError):
        found["nonsense"]


# Groups


def test_group_columns_are_aligned_by_id():
    shuffled = dict(sorted(GROUPS.items(), reverse=True))
    assert scores().with_groups(kind=shuffled).groups["kind"].tolist() == [
        "one",
        "two",
        "two",
        "three",
    ]
    with pytest.raises(MismatchError, match="'m'"):
        scores().with_groups(kind={q: g for q, g in GROUPS.items() if q != "m"})


def test_a_list_of_groups_is_for_queries_without_ids():
    with pytest.raises(UsageError, match="dictionary"):
        scores().with_groups(kind=["one", "two", "two", "three"])
    numbered = score(judge_ranks([1, 2]), "RR").with_groups(kind=[1, 2])
    assert numbered.groups["kind"].tolist() == ["1", "2"]
    renumbered = score(judge_ranks([1, 2], query_ids=[7, 3]), "RR")
    with pytest.raises(UsageError, match="dictionary"):
        renumbered.with_groups(kind=[1, 2])
    with pytest.raises(MismatchError, match="3"):
        score(judge_ranks([1, 2]), "RR").with_groups(queries=[1, 2, 3])


@pytest.mark.parametrize("name", ["query", "RR"])
def test_a_group_column_takes_no_name_that_is_in_use(name):
    with pytest.raises(UsageError, match="reserved"):
        scores().with_groups(**{name: GROUPS})


@pytest.mark.parametrize("odd", [None, math.nan])
def test_a_group_may_not_be_missing(odd):
    with pytest.raises(ValueRangeError):
        scores().with_groups(kind={**GROUPS, "m": odd})


# Merging


def part(*queries: str, measures="RR", groups=True, **conventions) -> Scores:
    run = {q: RUN[q] for q in queries if q in RUN}
    found = evaluate(
        run,
        {q: QRELS[q] for q in queries},
        measures,
        conventions=preset("trec_eval").replace(**conventions),
    )
    return found.with_groups(kind={q: GROUPS[q] for q in queries}) if groups else found


def test_merging_gives_the_whole_in_any_order():
    whole = scores()
    for parts in ([part("a"), part("b", "m"), part("e")], [part("e"), part("a", "m"), part("b")]):
        merged = Scores.merge(*parts)
        assert merged.values.tobytes() == whole.values.tobytes()
        assert list(merged.query_ids) == list(whole.query_ids)
        assert merged.missing.tolist() == whole.missing.tolist()
        assert merged.groups["kind"].tolist() == whole.groups["kind"].tolist()
        assert merged.mean(by="kind") == whole.mean(by="kind")


def test_merging_refuses_what_does_not_belong_together():
    with pytest.raises(UsageError):
        Scores.merge()
    with pytest.raises(IdError, match="'a'"):
        Scores.merge(part("a"), part("a", "b"))
    with pytest.raises(MismatchError, match="measures"):
        Scores.merge(part("a"), part("b", measures="AP"))
    with pytest.raises(MismatchError, match="conventions"):
        Scores.merge(part("a"), part("b", ties="best"))
    with pytest.raises(MismatchError, match="group columns"):
        Scores.merge(part("a"), part("b", groups=False))


# Showing


def test_to_dict_is_plain_json():
    data = json.loads(json.dumps(scores(["RR", "P@1"]).to_dict(), allow_nan=False))
    assert data["schema_version"] == 1
    assert data["queries"] == {"judged": 4, "missing": 1, "extra": 1}
    assert data["measures"]["RR"] == {
        "mean": 0.375,
        "n": 4,
        "empty": 1,
        "missing": 1,
        "tied": 0,
        "tied_share": 0.0,
    }
    assert data["per_query"]["e"] == {"RR": None, "P@1": None}
    assert Conventions.parse(data["signature"]) == preset("trec_eval")
    assert "per_query" not in scores().to_dict(per_query=False)


def test_repr_says_what_stands_behind_a_number():
    run, qrels = {"q": {"a": 1.0, "b": 1.0}, "r": {"a": 1.0}}, {"q": {"a": 1}, "r": {"b": 0}}
    text = repr(evaluate(run, qrels, ["RR", "nDCG@10"]))
    assert "2 queries" in text
    assert "micro" in text
    assert "1 empty" in text
    assert "50 % depend on ties" in text
    assert "preset:trec_eval|" in text


def test_looking_at_scores_never_fails():
    rules = preset("trec_eval").replace(empty="error", missing="error")
    found = evaluate({"e": {"x": 1.0}}, {"e": {"x": 0}}, "RR", conventions=rules)
    assert "1 empty" in repr(found)
    assert "1 empty" in found._repr_html_()
    with pytest.raises(ValueRangeError):
        found.mean()


def test_html_is_escaped():
    """Ids are not shown, and no part that is shown can carry markup; still, all is escaped."""
    evil = "<script>alert(1)</script>"
    found = evaluate({evil: {"x": 1.0}}, {evil: {"x": 1}}, ["RR", "nDCG(gains=1:3/2:9)@10"])
    page = found._repr_html_()
    assert "<script" not in page
    assert page.startswith("<table>")
    assert "nDCG(gains=1:3/2:9)@10" in page
    assert "<script" not in found.with_groups(kind={evil: evil})._repr_html_()
