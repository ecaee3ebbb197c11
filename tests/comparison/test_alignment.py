"""Systems on the queries they share: names, what is left out, and groups of queries."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from assay import compare, evaluate
from assay.comparison.alignment import align, cluster_labels, cluster_settings
from assay.errors import MismatchError, UsageError
from tests.comparison.made_scores import scores_of, with_users

RNG = np.random.default_rng(31)


def aligned(*systems, **settings):
    return align(systems, **{"names": None, "measures": None, "by": None, **settings})


def on(numbers):
    return scores_of(RNG.random(len(numbers)), ids=[f"q{number}" for number in numbers])


def test_systems_without_names_are_letters_or_numbers() -> None:
    assert aligned(*[on(range(3))] * 26).names == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    many = aligned(*[on(range(3))] * 27).names
    assert (many[0], many[26]) == ("S1", "S27")


def test_half_of_the_largest_set_is_enough_and_less_is_not() -> None:
    found = aligned(on(range(10)), on(range(5, 15)), on(range(10)), names=["a", "b", "c"])
    assert list(found.query_ids) == [f"q{number}" for number in range(5, 10)]
    assert found.sizes == (10, 10, 10)
    assert found.remarks == (
        "5 queries are in all systems and were compared; a has 10, b has 10, c has 10",
    )
    words = "Only 4 queries are in all 2 systems, less than half of the largest set: 'A' has 10, "
    with pytest.raises(MismatchError, match=words):
        aligned(on(range(10)), on(range(6, 12)))


def test_at_most_five_systems_are_listed() -> None:
    more = [on(range(10 + number)) for number in range(7)]
    (remark,) = (one for one in aligned(*more).remarks if "in all systems" in one)
    assert remark.startswith("10 queries are in all")
    assert remark.endswith("F has 15 and 1 more systems have others")
    (six,) = (one for one in aligned(*more[:6]).remarks if "in all systems" in one)
    assert six.endswith("; B has 11, C has 12, D has 13, E has 14, F has 15")
    apart = [on(range(20 * number, 20 * number + 10)) for number in range(6)]
    with pytest.raises(MismatchError, match=r"'E' has 10, …\. Score them"):
        aligned(*apart)
    with pytest.raises(MismatchError, match=r"'E' has 10\. Score them"):
        aligned(*apart[:5])


def test_copies_among_several_are_named() -> None:
    one, two = scores_of(RNG.random(8)), scores_of(RNG.random(8))
    assert aligned(one, two, one).remarks == ("A and C are equal on every query",)
    many = [on(range(10)) for _ in range(6)]
    assert [remark[:7] for remark in aligned(*many, *many).remarks] == [
        *("A and G", "B and H", "C and I", "D and J", "E and K")  # five are enough
    ]
    assert aligned(one, one).remarks == ()


def test_remarks_on_the_input_name_their_system() -> None:
    odd = replace(on(range(4)), remarks=("odd input",))
    assert aligned(odd, on(range(4)), names=["x", "y"]).remarks == ("x: odd input",)
    assert aligned(odd, names=["x"]).remarks == ()


def test_unlike_measures_and_rules_are_named() -> None:
    both = scores_of(RNG.random((2, 4)), measures="RR,AP")
    with pytest.raises(MismatchError, match="'A' and 'C' have different measures: RR, AP; and RR"):
        compare(both, both, scores_of(RNG.random(4)))
    assert compare(both, scores_of(RNG.random(4)), measures="RR").measures[0].name == "RR"
    with pytest.raises(MismatchError, match="empty is skip and zero, missing is zero and skip"):
        compare(
            scores_of(RNG.random(4), empty="skip", missing="zero"),
            scores_of(RNG.random(4), empty="zero", missing="skip"),
        )
    with pytest.raises(UsageError, match="measures must be a text or a list"):
        compare(both, both, measures=3)


def test_the_groups_to_resample_are_those_of_the_column() -> None:
    scores = with_users(RNG.random(4), ["u", "u", "v", "w"])
    assert list(cluster_labels(scores, "user")) == ["u", "u", "v", "w"]
    assert cluster_labels(scores, "") is None
    hint = "no group column 'usr' to resample by. Did you mean user? They have: 'user'."
    with pytest.raises(UsageError, match=re.escape(hint)):
        cluster_labels(scores, "usr")
    with pytest.raises(UsageError, match=r"They have: none\."):
        cluster_labels(on(range(3)), "user")
    with pytest.raises(UsageError, match="a text, found int"):
        cluster_labels(scores, 3)


def test_of_several_columns_that_with_the_fewest_groups_counts() -> None:
    users = with_users([0.1, 0.2, np.nan, np.nan], ["a", "b", "c", "d"])
    ids = list(users.query_ids)
    both = users.with_groups(day=dict(zip(ids, ["m", "n", "o", "o"], strict=True)))
    assert cluster_settings([]) == cluster_settings([("", both)]) == {}
    assert cluster_settings([("user", both)]) == {"by": "user"}
    assert cluster_settings([("user", both), ("day", both)]) == {"by": "day"}  # two each: by name
    full = scores_of([0.1, 0.2, 0.3, 0.4]).with_groups(
        **{"a": dict(zip(ids, "wxyz", strict=True)), "z": dict(zip(ids, "vvww", strict=True))}
    )
    assert cluster_settings([("a", full), ("z", full)]) == {"by": "z"}


def test_a_query_in_two_groups_is_named() -> None:
    one, two = (with_users(RNG.random(3), ["u", "v", last]) for last in "wx")
    words = "Query 'q0002' is in group 'w' for one system and in 'x' for 'B'"
    with pytest.raises(MismatchError, match=words):
        compare(one, two, by="user")


def test_one_system_with_the_column_is_enough() -> None:
    values = RNG.random((2, 12))
    users = [f"u{number // 2}" for number in range(12)]
    for systems in (
        (with_users(values[0], users), scores_of(values[1])),
        (scores_of(values[0]), with_users(values[1], users)),
    ):
        assert compare(*systems, by="user").pairs[0].n_units == 6


def cut_at(depth: int, ties: str = "order"):
    """Scores of one random run over 40 documents, cut at a depth; their first ranks are equal."""
    rng = np.random.default_rng(5)
    run = {f"q{q}": {f"d{d}": float(rng.random()) for d in range(40)} for q in range(12)}
    qrels = {f"q{q}": {f"d{d}": 1 for d in rng.choice(40, 6, replace=False)} for q in range(12)}
    measures = ["nDCG@10", "R@10", "R@30", "RR", "P@5"]
    return evaluate(run, qrels, measures, ties=ties, depth=depth)


def test_lists_of_different_depth_compare_on_cut_offs_that_all_reach() -> None:
    whole, short = cut_at(0), cut_at(10)
    both = aligned(whole, short)
    assert list(map(str, both.measures)) == ["nDCG@10", "R@10", "P@5"]
    assert np.array_equal(both.values[0], both.values[1]), "what stands above the cut is the same"
    (remark,) = (remark for remark in both.remarks if "retrieved only 10 documents" in remark)
    assert remark.startswith("left out: R@30, RR. Some systems")
    assert "|depth:all;10|" in both.signature
    assert aligned(short, whole, measures="P@5").values.shape == (2, 1, 12)
    with pytest.raises(MismatchError, match=r"R@30\. Some systems retrieved only 10 documents"):
        aligned(short, whole, measures=["nDCG@10", "R@30"])
    with pytest.raises(MismatchError, match=r"^nDCG@10, R@10, R@30, RR\. Some"):
        aligned(replace(short, measures=short.measures[:4], values=short.values[:4]), cut_at(7))


def test_a_cut_may_split_ties_that_count() -> None:
    with pytest.raises(MismatchError, match="different conventions: depth is 10 and 20"):
        aligned(cut_at(10, "expected"), cut_at(20, "expected"))
