"""check_match: which ids are refused, and which differences between two inputs are fine."""

from __future__ import annotations

import random

import pytest

from assay.core.id_hints import check_labels_match, check_match
from assay.core.ids import Ids
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
    with pytest.raises(MismatchError, match=r"None of the 2 judged is in the run: not 'a', 'b'"):
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
    monkeypatch.setattr("assay.core.id_hints.near_misses", lambda *_, **__: 1 / 0)
    assert check(rng.sample(ids, 1000), rng.sample(ids, 1000)) == ()
