"""Comparison in slices of the queries: verdicts, dependence, the mean of slices."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import compare
from assay.errors import UsageError
from assay.tables.table import latex_page, markdown_page
from tests.comparison.made_scores import scores_of
from tests.comparison.test_coherence import COMBINATIONS, KINDS, make
from tests.examples import examples
from tests.hostile import HOSTILE


def sliced(row, labels, **columns):
    scores = scores_of(row)
    ids = list(scores.query_ids)
    made = {"kind": labels, **columns}
    return scores.with_groups(**{k: dict(zip(ids, v, strict=True)) for k, v in made.items()})


def two(labels, shifts, seed=0, spread=0.1):
    rng = np.random.default_rng(seed)
    base = rng.random(len(labels))
    other = base + spread * rng.normal(size=len(labels)) + [shifts[label] for label in labels]
    return [sliced(row, labels) for row in (other, base)]


def test_each_slice_has_a_verdict_and_the_dependence_is_shown() -> None:
    labels = ["de"] * 40 + ["en"] * 50 + ["fr"] * 30
    new, old = two(labels, {"de": 0.2, "en": 0.0, "fr": -0.2})
    found = compare(new, old, names=["new", "old"], slices="kind")
    by_name = {one.name: one for one in found.slices.slices}
    assert [by_name[name].pairs[0].winner for name in ("de", "en", "fr")] == ["new", None, "old"]
    assert by_name["de"].verdict.startswith("new is better than old on RR. Lead +0.")
    assert "max-t over 3 slices" in found.slices.method
    assert found.slices.interaction_p("new", "old", "RR") < 0.001
    where, depends, mean = found.slices.verdicts["RR"]
    assert where == (
        "By kind: new better than old in de; not separable in en; old better than new in fr"
    )
    assert depends.startswith("The difference new − old depends on kind: in ")
    assert mean.startswith("In the mean of 3 slices new and old do not differ significantly: ")
    assert found.slices.family == "one pair in 3 slices by kind"


def test_the_mean_of_slices_counts_each_the_same() -> None:
    labels = ["a"] * 60 + ["b"] * 20
    new, old = two(labels, {"a": 0.0, "b": 0.3})
    found = compare(new, old, names=["new", "old"], slices="kind")
    one = found.slices.macro[0]
    parts = [np.mean(new["RR"][i] - old["RR"][i]) for i in (slice(60), slice(60, 80))]
    assert one.difference == pytest.approx(np.mean(parts), rel=1e-12)
    assert one.low < one.difference < one.high
    assert one.clear
    mean = found.slices.means["RR", "new"]
    assert mean.estimate == pytest.approx(np.mean([new["RR"][:60].mean(), new["RR"][60:].mean()]))
    assert 0 <= mean.low < mean.estimate < mean.high <= 1


def test_means_of_slices_lie_within_the_bounds_of_the_measure() -> None:
    row, labels = np.array(([1.0] * 9 + [0.5]) * 2 + [0.0] * 5), ["a", "b"] * 10 + [""] * 5
    systems = [sliced(each, labels) for each in (row, 1 - row)]
    found = compare(*systems, names=["new", "old"], slices="kind", level=0.1)
    new, old = (found.slices.means["RR", name] for name in ("new", "old"))
    assert (new.n, new.level) == (20, 0.9)  # without the five that are in no slice
    assert (new.estimate, old.estimate) == pytest.approx((0.95, 0.05))
    assert 0.8 < new.low < new.estimate < new.high == 1.0
    assert 0.0 == old.low < old.estimate < old.high < 0.2


def test_one_pair_in_one_slice_is_a_comparison_of_its_queries() -> None:
    new, old = two(["a"] * 30 + [""] * 10, {"a": 0.05, "": 0.5})
    found = compare(new, old, names=["new", "old"], slices="kind")
    alone = compare(*[scores_of(one["RR"][:30]) for one in (new, old)], names=["new", "old"])
    (pair,), (same,) = found.slices.slices[0].pairs, alone.pairs
    assert (pair.p, pair.interval.low, pair.winner) == (same.p, same.interval.low, same.winner)
    assert found.slices.interactions == found.slices.macro == ()
    assert "10 queries have no kind and count in no slice" in found.remarks


def test_slices_are_in_natural_order_and_small_ones_are_not_decided() -> None:
    labels = ["10-20"] * 20 + ["5-10"] * 20 + ["100"] * 5
    new, old = two(labels, dict.fromkeys(labels, 0.3))
    found = compare(new, old, names=["new", "old"], slices="kind")
    assert found.slices.names == ("5-10", "10-20", "100")
    small = found.slices.slices[2]
    assert small.pairs == ()
    assert small.note == "too few queries (5): at least 6 are needed"
    assert small.n_queries == 5
    assert found.slices.slices[0].pairs[0].n_slices == 2
    assert "too few queries in 100" in found.slices.verdicts["RR"][0]
    remark = "slices of fewer than 6 queries are not tested: 100; their mean is of the other 2"
    assert remark in found.remarks
    only = compare(
        *[sliced(one["RR"], ["x"] * 3 + ["y"] * 42) for one in (new, old)], slices="kind"
    )
    assert [bool(one.pairs) for one in only.slices.slices] == [False, True]


def three_kinds(measures="RR,AP"):
    """Two measures of three systems on three kinds of queries, with gaps."""
    rng = np.random.default_rng(9)
    labels = ["de"] * 25 + ["en"] * 15 + ["fr"] * 8 + ["xx"] * 2
    shifts = [[0.0], [0.2], [0.1]] * (np.array(labels) != "en")
    tables = np.clip(rng.random(50) * 0.6 + 0.15 * rng.random((2, 3, 50)) + shifts, 0, 1)
    tables[1, 2, :3] = np.nan
    kept = [row for row, name in enumerate(("RR", "AP")) if name in measures]
    systems = [
        scores_of(tables[kept, number], measures=measures, empty="skip") for number in range(3)
    ]
    kinds = dict(zip(systems[0].query_ids, labels, strict=True))
    return tables, np.array(labels), [one.with_groups(kind=kinds) for one in systems]


@pytest.mark.parametrize("baseline", [None, "b"])
def test_measures_are_compared_apart(baseline) -> None:
    arguments = {"names": ["a", "b", "c"], "baseline": baseline, "slices": "kind", "resamples": 200}
    both = compare(*three_kinds()[2], **arguments)
    for measure in ("RR", "AP"):
        one = compare(*three_kinds(measure)[2], **arguments)
        own, alone = (found.to_dict() for found in (both, one))
        assert own["measures"][measure] == alone["measures"][measure]
        assert own["slices"]["measures"][measure] == alone["slices"]["measures"][measure]
        for table in ("table", "means_table", "page_on"):
            assert getattr(both.slices, table)(measure) == getattr(one.slices, table)(measure)
        assert both.slices.names == one.slices.names == ("de", "en", "fr", "xx")


def test_contrasts_are_differences_of_slices() -> None:
    tables, labels, systems = three_kinds()
    found = compare(*systems, names=["a", "b", "c"], slices="kind", resamples=200).slices
    assert (len(found.interactions), len(found.macro)) == (2 * 3 * 3, 2 * 3)
    shown = found.table("RR")
    assert shown.columns[-shown.n_optional :] == ("wins/ties/losses",)
    for one in (*found.interactions, *found.macro):
        a, b = (tables[int(one.measure == "AP"), "abc".index(name)] for name in (one.a, one.b))
        means = {name: np.nanmean((a - b)[labels == name]) for name in ("de", "en", "fr")}
        own = means.pop(one.slice, None)
        others = np.mean(list(means.values()))
        assert one.difference == pytest.approx(others if own is None else own - others)


def test_forty_five_rows_of_pairs_are_shown_and_more_are_not() -> None:
    rng = np.random.default_rng(2)
    for last, tables in (([], 2), (["c", "c"], 1)):  # 15 pairs in two slices and their mean
        labels = [*"ab" * 8, *last]
        systems = [sliced(rng.random(len(labels)), labels) for _ in range(6)]
        page = compare(*systems, slices="kind", resamples=100).slices.page_on("RR")
        assert sum(hasattr(part, "columns") for part in page) == tables


def test_contrasts_may_be_seen_from_either_system() -> None:
    systems = three_kinds()[2]
    found = compare(*systems, names=["a", "b", "c"], slices="kind", resamples=200).slices
    turned = compare(*systems[::-1], names=["c", "b", "a"], slices="kind", resamples=200).slices
    for one in found.macro:
        (other,) = (c for c in turned.macro_on(one.measure) if {c.a, c.b} == {one.a, one.b})
        back = other.seen_from(one.a)
        assert (back.a, back.b, back.p) == (one.a, one.b, one.p)
        ends = (one.difference, one.low, one.high)
        assert (back.difference, back.low, back.high) == pytest.approx(ends)
        own = [c.p for c in found.interactions_on(one.measure) if (c.a, c.b) == (one.a, one.b)]
        for pair in ((one.a, one.b), (one.b, one.a)):
            assert found.interaction_p(*pair, one.measure) == min(own)


def test_clusters_may_reach_over_slices() -> None:
    labels, users = ["a", "b"] * 30, [f"u{i // 4}" for i in range(60)]
    rng = np.random.default_rng(1)
    of_user = dict(zip(sorted(set(users)), rng.normal(size=15), strict=True))
    rows = [np.array([of_user[u] for u in users]) * k + rng.random(60) for k in (0, 1)]
    new, old = (sliced(row, labels, user=users) for row in rows)
    found = compare(new, old, slices="kind", by="user")
    assert found.slices.slices[0].pairs[0].n_units == 15
    # A user is in both slices: what all of a user's queries share is in no contrast of the two.
    assert found.slices.interactions[0].high - found.slices.interactions[0].low < (
        found.slices.macro[0].high - found.slices.macro[0].low
    )
    few = compare(new, old, slices="user", by="user")
    assert not any(one.pairs for one in few.slices.slices)
    assert "no slice is large enough" in str(few)


@examples(60)
@given(
    st.sampled_from([one for one in COMBINATIONS if one[1] != "tukey"]),
    st.sampled_from(KINDS),
    st.integers(2, 4),
    st.integers(12, 60),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.01, 0.05, 0.2]),
    st.integers(0, 2**32 - 1),
)
def test_no_two_answers_disagree_in_any_slice(
    how, kind, systems, n, grouped, baseline, level, seed
) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice(["a", "b", "c", ""], n).tolist()
    users = [f"u{i}" for i in rng.integers(0, n, n)]
    found = compare(
        *[sliced(row, labels, user=users) for row in make(kind, systems, n, seed)],
        names=[f"s{i}" for i in range(systems)],
        test=how[0],
        correction=how[1],
        level=level,
        resamples=300,
        baseline="s0" if baseline else None,
        by="user" if grouped else None,
        slices="kind",
    )
    for pair in (pair for one in found.slices.slices for pair in one.pairs):
        decided = pair.winner is not None
        assert not decided or pair.p <= level
        if pair.coherent and not math.isnan(pair.interval.low):
            outside = pair.interval.low > 0 or pair.interval.high < 0
            assert outside == decided == (pair.p <= level), pair
    for one in (*found.slices.macro, *found.slices.interactions):
        if not math.isnan(one.low):
            assert one.clear == (one.low > 0 or one.high < 0), one
    text = str(found)
    assert "-0.0000" not in text
    assert "nan" not in text
    json.dumps(found.to_dict(), allow_nan=False)


def test_what_json_and_tables_hold() -> None:
    labels = ["de"] * 20 + ["en"] * 20 + ["xx"] * 2
    rng = np.random.default_rng(4)
    systems = [sliced(rng.random(42), labels) for _ in range(3)]
    found = compare(*systems, names=["a", "b", "c"], slices="kind")
    data = found.to_dict()["slices"]
    assert data["family"] == "all 3 pairs in 2 slices by kind"
    own = data["measures"]["RR"]
    assert [one["n"] for one in own["slices"]] == [20, 20, 2]
    assert own["slices"][0]["pairs"][0]["test"] == "max-t over 3 pairs in 2 slices"
    assert own["slices"][2]["pairs"] == []
    assert len(own["interaction"]) == len(own["macro"]["pairs"]) == 3
    assert [one["slice"] for one in own["interaction"][0]["beside_the_others"]] == ["de"]
    table = found.data_table()
    assert table.columns[0] == "slice"
    assert [row[0].value for row in table.rows] == [""] * 3 + ["de"] * 3 + ["en"] * 3
    assert "Slices: max-t over 3 pairs in 2 slices (all 3 pairs in 2 slices by kind)" in str(found)
    assert "slices" not in compare(*systems).to_dict()
    assert "slice" not in compare(*systems).data_table().columns


def test_hostile_names() -> None:
    labels = [name for name in HOSTILE for _ in range(6)]
    rows = np.random.default_rng(5).random((2, len(labels)))
    found = compare(*[sliced(row, labels) for row in rows], slices="kind", resamples=200)
    assert len(found.slices.names) == len(HOSTILE)
    for page in (str(found), markdown_page(found.page()), latex_page(found.page())):
        assert "\x1b" not in page
    assert "<script" not in found._repr_html_()


def test_senseless_slices_are_refused() -> None:
    new, old = two(["a"] * 10 + ["b"] * 10, {"a": 0, "b": 0})
    for wrong, words in (("nope", "nope"), (3, "a text"), (["kind"], "a text")):
        with pytest.raises(UsageError, match=words):
            compare(new, old, slices=wrong)
    with pytest.raises(UsageError, match="tukey"):
        compare(new, old, slices="kind", correction="tukey")
    with pytest.raises(UsageError, match="is empty"):
        compare(*[sliced(one["RR"], [""] * 20) for one in (new, old)], slices="kind")
    many = [f"s{i // 6}" for i in range(720)]
    with pytest.raises(UsageError, match="120 slices, more than 100"):
        compare(*[sliced(np.random.default_rng(0).random(720), many)] * 2, slices="kind")


def test_identical_systems_are_identical_in_each_slice() -> None:
    row = np.random.default_rng(6).random(20)
    found = compare(*[sliced(row, ["a", "b"] * 10)] * 2, names=["x", "y"], slices="kind")
    assert found.slices.verdicts["RR"] == ["By kind: identical in a and b"]


def parts_of(found):
    return [part for part in found.slices.page_on("RR") if hasattr(part, "columns")]


def test_one_slice_that_is_large_enough_has_tables_and_no_mean() -> None:
    new, old = two(["a"] * 20 + ["b"] * 5, {"a": 0.2, "b": 0.2})
    found = compare(new, old, names=["new", "old"], slices="kind", resamples=300)
    means, pairs = parts_of(found)
    assert [row[0].value for row in means.rows] == ["a", "b"]
    assert [row[1].value for row in means.rows] == [20, 5]
    assert means.rows[0][2].value == pytest.approx(new["RR"][:20].mean())
    assert [cell.best for cell in means.rows[0][2:]] == [True, False]
    assert [cell.text for cell in pairs.rows[1]] == ["b", "5", "too few to test", *"––––"]
    assert found.slices.family == "one pair in 1 slice by kind"
    assert found.slices.method.endswith(f"({found.slices.family}).")
    words = "slices of fewer than 6 queries are not tested: b"
    assert found.slices.remarks == (words,)
    by_name = {one.name: one for one in found.slices.slices}
    assert by_name["b"].verdict == ("Not tested on RR: too few queries (5): at least 6 are needed")


def test_the_pairs_of_slices_put_the_better_of_all_queries_first() -> None:
    labels = ["a"] * 20 + ["b"] * 8 + ["", "c"]
    new, old = two(labels, {"a": -0.3, "b": 0.3, "": 0, "c": 0})
    found = compare(new, old, names=["new", "old"], slices="kind", resamples=300)
    means, pairs = parts_of(found)
    d = old["RR"] - new["RR"]
    own = [d[:20].mean(), d[20:28].mean()]
    assert [row[2].value for row in pairs.rows if row[2].value != "too few to test"] == [
        "old − new"
    ] * 3
    shown = [row[3].text for row in pairs.rows if row[3].value is not None]
    assert shown == [f"{number:+.4f}" for number in (*own, np.mean(own))]
    assert pairs.rows[-1][0].value == means.rows[-1][0].value == "mean of slices"
    assert means.rows[-1][2].value == pytest.approx(
        (new["RR"][:20].mean() + new["RR"][20:28].mean()) / 2
    )
    _, depends, _ = found.slices.verdicts["RR"]
    assert f"old − new depends on kind: in a it is larger by {own[0] - own[1]:.4f} [" in depends
    assert " than in b, p = " in depends
    assert depends.endswith("(max-t)")
    assert found.slices.remarks == (
        "1 query has no kind and count in no slice",
        "slices of fewer than 6 queries are not tested: c; their mean is of the other 2",
    )
    turned = compare(new, old, names=["new", "old"], baseline="old", slices="kind", resamples=300)
    assert parts_of(turned)[1].rows[0][2].value == "new − old"
    smaller = turned.slices.verdicts["RR"][1]
    assert f"new − old depends on kind: in a it is smaller by {own[0] - own[1]:.4f}" in smaller
    ends = [text.partition("[")[2].partition("]")[0] for text in (depends, smaller)]
    low, high = map(float, ends[0].split(", "))
    assert ends[0] == ends[1]
    assert low < own[0] - own[1] < high


def test_several_pairs_in_slices_are_counted() -> None:
    rng = np.random.default_rng(8)
    labels = ["a"] * 20 + ["b"] * 20 + ["c"] * 20
    base = rng.random(60) * 0.3
    rows = [base + 0.02 * rng.random(60) + shift for shift in (0.0, 0.3)]
    rows.append(rows[1] + 0.02 * rng.normal(size=60) - 0.3 * (np.arange(60) >= 40))
    found = compare(*[sliced(row, labels) for row in rows], slices="kind", resamples=500)
    where, depends = found.slices.verdicts["RR"]
    assert where == "By kind: 2 of 3 pairs differ in a, b and c"
    assert depends.startswith("The difference ")
    assert "(max-t over 9 contrasts); it also differs in " in depends
    flat = [rng.random(60) for _ in range(3)]
    none = compare(*[sliced(row, labels) for row in flat], slices="kind", resamples=500)
    smallest = min(one.p for one in none.slices.interactions)
    assert none.slices.verdicts["RR"] == [
        "By kind: none of 3 pairs differ in a, b and c",
        f"No difference is shown to depend on kind: p = {smallest:.4f} (max-t over 9 contrasts)",
    ]
    assert none.slices.interaction_p("A", "B", "RR") == min(
        one.p for one in none.slices.interactions if (one.a, one.b) == ("A", "B")
    )


def test_the_longest_table_of_slices_that_is_shown_has_45_rows() -> None:
    for n, tables in ((44, 2), (45, 1)):  # and a row for their mean
        labels = [f"s{number:02}" for number in range(n) for _ in range(6)]
        new, old = two(labels, dict.fromkeys(labels, 0.0))
        found = compare(new, old, slices="kind", resamples=100)
        assert len(parts_of(found)) == tables


def test_a_mapping_in_place_of_a_column_is_named_in_one_line() -> None:
    qrels = {f"q{number}": {"a": 1} for number in range(200)}
    run = {query: {"a": 1.0} for query in qrels}
    with pytest.raises(UsageError, match="the name of one group column") as refused:
        compare({"x": run, "y": run}, qrels, slices={"kind": dict.fromkeys(qrels, "all")})
    assert len(str(refused.value)) < 150
