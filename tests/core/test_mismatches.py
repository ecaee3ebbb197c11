"""check_match: which ids are refused, and which differences between two inputs are fine."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.ids import Ids
from assay.core.mismatches import (
    PLAIN_FORMS,
    check_labels_match,
    check_match,
    describe_near,
    looks_alike,
    near_misses,
)
from assay.errors import MismatchError


def check(wanted, there, **rules):
    return check_match(Ids.of(list(wanted)), Ids.of(list(there)), "judged", "the run", **rules)


NUMBERS = [str(i) for i in range(1, 31)]
WRITTEN_DIFFERENTLY = {
    "zero padding": [f"{i:03d}" for i in range(1, 31)],
    "decimal point": [f"{number}.0" for number in NUMBERS],
    "prefix": [f"doc-{number}" for number in NUMBERS],
    "quotes": [f'"{number}"' for number in NUMBERS],
    "a list": [f"{number};x{number}" for number in NUMBERS],
}


@pytest.mark.parametrize("how", WRITTEN_DIFFERENTLY)
@pytest.mark.parametrize("swap", [False, True])
def test_ids_that_are_written_differently_are_refused(how, swap):
    sides = [NUMBERS, WRITTEN_DIFFERENTLY[how]]
    with pytest.raises(MismatchError, match=rf"30 of 30 .*{how}.*--allow-mismatch"):
        check(*(sides[::-1] if swap else sides))


def test_several_differences_at_once():
    with pytest.raises(MismatchError, match="more than one of prefix, case"):
        check([f"DOC-{i:05d}" for i in range(20)], [f"d{i}" for i in range(20)])


def test_another_case():
    with pytest.raises(MismatchError, match="upper and lower case"):
        check(["Abc", "Def"], ["abc", "def"])


def test_some_equal_ids_do_not_hide_the_others():
    """9 of 30: the ids from 10 on are equal in both."""
    with pytest.raises(MismatchError, match=r"9 of 9 .* zero padding \('1' and '01'"):
        check(NUMBERS, [f"{i:02d}" for i in range(1, 31)])


def test_what_is_allowed_is_a_remark():
    (remark,) = check(["1", "2"], ["01", "02"], allow=True)
    assert "zero padding" in remark
    assert "allow" not in remark


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (NUMBERS, NUMBERS),
        (NUMBERS, NUMBERS[:3]),  # a run of few topics
        (NUMBERS[:3], NUMBERS),  # many are not judged
        (NUMBERS, [*NUMBERS[:4], *(f"x{i}" for i in range(500))]),  # a poor system
        (NUMBERS, []),
        ([], NUMBERS),
        (["apple", *NUMBERS], ["Apple", *NUMBERS]),  # one of many may be an accident
        ([f"{i:05d}" for i in range(500)], [f"{i:05d}" for i in range(450, 2000)]),
    ],
)
def test_what_fits_is_not_refused(wanted, there):
    assert check(wanted, there, either=True) == ()


def test_nothing_in_common():
    with pytest.raises(
        MismatchError, match=r"None of the 2 judged is in the run \(missing: 'a', 'b'"
    ):
        check("ab", "xyz")
    assert check("ab", "xyz", none=False) == ()


def test_less_than_a_tenth_of_either_side():
    left, right = [f"{i:04d}" for i in range(100)], [f"{i:04d}" for i in range(95, 300)]
    with pytest.raises(MismatchError, match="5 of the 100 judged are in the run"):
        check(left, right, either=True)
    assert check(left, right[:50], either=True) == ()


def test_another_prefix_may_be_another_source():
    left, right = [f"a{i}" for i in range(9)], [f"b{i}" for i in range(9)]
    assert check(left, right, none=False, prefixes=False) == ()
    with pytest.raises(MismatchError, match="prefix"):
        check(left, right, none=False)


def test_labels_may_hold_white_space():
    rules = {"what": "classes", "place": "the lists"}
    assert check_labels_match(["at home", ""], ["at home", "at work"], **rules) == ()
    with pytest.raises(MismatchError, match="'at home' and 'At Home'"):
        check_labels_match(["at home"], ["At Home", "x"], **rules)


def test_many_ids_of_one_look_are_not_compared_one_by_one(monkeypatch):
    """Ids without a partner are usual; only where they look different is it worth the time."""
    rng = random.Random(0)
    ids = [f"doc{i:07d}" for i in range(3000)]
    monkeypatch.setattr("assay.core.mismatches.near_misses", lambda *_, **__: 1 / 0)
    assert check(rng.sample(ids, 1000), rng.sample(ids, 1000)) == ()


def test_the_whole_sentence():
    """Three pairs of those that differ, and three ids of each side where nothing is near."""
    with pytest.raises(MismatchError) as found:
        check("1234", ["01", "02", "03", "04"])
    assert str(found.value) == (
        "4 of 4 judged missing from the run appear there under an id that differs in zero padding "
        "('1' and '01', '2' and '02', '3' and '03'). Write the ids alike, or continue with "
        "--allow-mismatch (allow_mismatch=True)."
    )
    with pytest.raises(MismatchError) as found:
        check("abcd", ["é", "è", "ô"])
    assert str(found.value) == (
        "None of the 4 judged is in the run (missing: 'a', 'b', 'c', … (4 in all); present: 'é', "
        "'è', 'ô'). Check both files; if they belong together, continue with "
        "--allow-mismatch (allow_mismatch=True)."
    )


@pytest.mark.parametrize(("n_equal", "fits"), [(90, False), (91, True)])
def test_near_ids_are_refused_from_a_tenth_of_those_with_a_partner_on(n_equal, fits):
    equal = [str(i) for i in range(100, 100 + n_equal)]
    wanted, there = ([*equal, *(f"{i:0{n}d}" for i in range(1, 11))] for n in (5, 1))
    if fits:
        assert check(wanted, there) == ()
    else:
        with pytest.raises(MismatchError, match=r"10 of 10 judged .* zero padding"):
            check(wanted, there)


@pytest.mark.parametrize(("n_common", "fits"), [(9, False), (10, True)])
def test_a_tenth_of_one_side_is_enough(n_common, fits):
    left, right = (
        [f"{i:04d}" for i in range(s, s + n)] for s, n in ((0, 100), (100 - n_common, 300))
    )
    for sides in ((left, right), (right, left)):
        if fits:
            assert check(*sides, either=True) == ()
        else:
            with pytest.raises(MismatchError, match=r"9 of the [13]00 judged are in the run"):
                check(*sides, either=True)


@pytest.mark.parametrize(("size", "fits"), [(4, True), (5, False)])
def test_few_pairs_with_another_prefix_are_other_ids(size, fits):
    sides = ([f"{letter}{i}" for i in range(size)] for letter in "ab")
    if fits:
        assert check(*sides, none=False) == ()
    else:
        with pytest.raises(MismatchError, match=r"5 of 5 .* prefix or suffix"):
            check(*sides, none=False)


def test_a_part_of_many_ids_tells_the_share():
    wanted, there = ([f"{i:0{n}d}" for i in range(2000, 3100)] for n in (4, 6))
    with pytest.raises(MismatchError, match="About 100 % of the judged missing from the run"):
        check(wanted, there)
    with pytest.raises(MismatchError, match="About 50 % of the judged missing from the run"):
        check(wanted, there[::2])


def test_each_id_has_one_partner_or_none():
    assert near_misses(["1", "2"], ["01", "001", "02"]) == {"in zero padding": [("2", "02")]}
    assert near_misses(["1", "x"], ["01", "X"]) == {
        "in zero padding": [("1", "01")],
        "in upper and lower case": [("x", "X")],
    }
    assert near_misses(["a;b", "c"], ["b", "c,d"]) == {
        "in being a list of ids": [("c", "c,d"), ("a;b", "b")]
    }
    assert near_misses(["ab", "c"], ["a", "cd"]) == {}
    assert describe_near(["1"], ["2"]) == ""


def test_a_shared_prefix_does_not_cut_a_number():
    how = "in a prefix or suffix"
    left, right = ["x10", "x11", "x12"], ["10.txt", "11.txt", "13.txt"]
    assert near_misses(left, right) == {how: [("x10", "10.txt"), ("x11", "11.txt")]}
    assert near_misses(left, ["y0", "y1", "y2"]) == {}
    assert near_misses(["x1"], ["y1"]) == {}  # of a single id nobody knows what its prefix is
    assert near_misses(["x1"], ["y1"], whole=(["x1", "x2"], ["y1", "y3"])) == {how: [("x1", "y1")]}


TEENS = [str(i) for i in range(11, 21)]


@pytest.mark.parametrize(
    ("absent", "some", "alike"),
    [
        (TEENS[:1], TEENS, True),
        (TEENS[:1], [*TEENS[1:], "01"], False),  # a tenth of what is there is padded
        (TEENS[:1], [*TEENS, "01"], True),
        ([*TEENS[:8], "x1", "x2"], TEENS, False),  # a fifth of what is lacking looks different
        ([*TEENS[:9], "x1"], TEENS, True),
    ],
)
def test_from_how_many_on_ids_look_different(absent, some, alike):
    wanted = Ids.of([*absent, *(str(i) for i in range(50, 60))])
    matched = np.arange(len(wanted)) >= len(absent)
    assert looks_alike(wanted, matched, some) == alike


def test_a_tenth_must_be_there_to_look_alike():
    wanted = Ids.of([str(i) for i in range(10, 30)])
    for n_matched, alike in ((1, False), (2, True)):
        assert looks_alike(wanted, np.arange(20) < n_matched, TEENS) == alike


def test_two_ids_may_be_near_to_the_same_one():
    with pytest.raises(MismatchError, match=r"2 of 2 .* \('001' and '1', '01' and '1'\)"):
        check(["01", "001", *TEENS], ["1", *TEENS])


_ATOMS = ["a", "A", "0", "00", "7", ".0", '"', "é", "e\u0301", ";", "doc", "ß", "ss", "\u00a0", "."]
_SOME_IDS = st.lists(
    st.lists(st.sampled_from(_ATOMS), min_size=1, max_size=5).map("".join), max_size=12
)


@given(left=_SOME_IDS, right=_SOME_IDS)
def test_kinds_that_are_not_tried_find_nothing(left: list[str], right: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.core.mismatches.possible_kinds", lambda _: set(PLAIN_FORMS))
        every = near_misses(left, right)
    assert near_misses(left, right) == every
